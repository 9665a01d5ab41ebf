"""`pliant report`: one report of what `pliant eval` saved, several seeds of a ranking together."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pliant.cli.console import Json, Quiet, emit, show
from pliant.cli.outputs import Outputs, Result
from pliant.errors import InputError
from pliant.evaluation import Curve, table
from pliant.evaluation.panels import check_comparable
from pliant.evaluation.runs import joined


def report(
    files: Annotated[list[Path], typer.Argument(help="What `pliant eval --save` wrote; a file for each seed.")],
    out: Annotated[Path | None, typer.Option(help="Write a self-contained HTML page.")] = None,
    plot_path: Annotated[Path | None, typer.Option("--plot", help="Write the curves as a PNG.")] = None,
    json_path: Annotated[Path | None, typer.Option("--save", help="Write the joined curves as JSON.")] = None,
    csv_path: Annotated[Path | None, typer.Option("--csv", help="Write a row for each metric of each size.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show saved measurements again: curves of one ranker as their mean, with a band from the lowest to the highest."""
    if len({file.resolve() for file in files}) < len(files):
        raise InputError(f"One of {', '.join(map(str, files))} is named twice. Name each measurement once.")
    outputs = Outputs(report=out, plot=plot_path, json=json_path, csv=csv_path)
    outputs.check(files)
    saved = [_read(file) for file in files]
    curves = joined([result.curves for result in saved])
    check_comparable(curves)
    result = Result(tuple(curves), None, _together([result.provenance for result in saved]))
    outputs.write(result)
    show(table(curves), quiet or as_json)
    if as_json:
        emit(result.to_json())


def _read(path: Path) -> Result:
    """Return what a file holds; what each size keeps of the layers isn't in it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise InputError(f"{path} can't be read: {reason}. Pass what `pliant eval --save` wrote.") from error
    curves = data.get("curves") if isinstance(data, Mapping) else None
    made_with: Any = data.get("made_with", {}) if isinstance(data, Mapping) else {}
    if not isinstance(curves, list) or not curves or not isinstance(made_with, Mapping):
        raise InputError(f"{path} holds no curves. Pass what `pliant eval --save` wrote.")
    try:
        return Result(tuple(map(Curve.from_json, curves)), None, made_with)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _together(provenances: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return how all of them were made; where they differ, all values, in the order of the files."""
    names = dict.fromkeys(name for provenance in provenances for name in provenance)
    values = {name: [provenance.get(name) for provenance in provenances] for name in names}
    return {name: found[0] if all(value == found[0] for value in found) else found for name, found in values.items()}
