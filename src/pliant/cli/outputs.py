"""The files that measurements are written to, checked before the long part and written after it."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.conventions import MANIFEST, read_json
from pliant.errors import InputError
from pliant.evaluation import Curve, Kept, check_plot, kept_plot, plot, write_report
from pliant.evaluation.curve import CSV_COLUMNS, rows
from pliant.files import check_writable, replacing


@dataclass(frozen=True)
class Result:
    """What `pliant eval` found.

    Args:
        curves: The curves, the emphasised one first.
        kept: What each size keeps of each layer; None where that isn't known.
        provenance: How the ranking was made.
        skipped: Names of images that were left out.
    """

    curves: tuple[Curve, ...]
    kept: Kept | None
    provenance: Mapping[str, object]
    skipped: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the curves, how the ranking was made, and what was left out if anything was, as JSON can hold it."""
        left_out = {"skipped": list(self.skipped)} if self.skipped else {}
        return {"curves": [curve.to_json() for curve in self.curves], "made_with": dict(self.provenance), **left_out}


@dataclass(frozen=True)
class Outputs:
    """Where results go; None for those that nobody wants.

    Args:
        report: A self-contained HTML page.
        plot: A PNG of the curves.
        kept_plot: A PNG of what each layer keeps.
        json: The curves as JSON.
        csv: A row for each metric of each size.
    """

    report: Path | None = None
    plot: Path | None = None
    kept_plot: Path | None = None
    json: Path | None = None
    csv: Path | None = None

    def check(self, inputs: Iterable[Path] = ()) -> None:
        """Refuse before the measurement what couldn't be written after it.

        Args:
            inputs: What is read, and must stay.

        Raises:
            InputError: A file can't be written, two are one, one is read as well, or a plot is no PNG.
            MissingExtraError: A plot is wanted and matplotlib is not installed.
        """
        drawn = [path for path in (self.plot, self.kept_plot) if path is not None]
        wanted = [*drawn, *(path for path in (self.report, self.json, self.csv) if path is not None)]
        if len({path.resolve() for path in wanted}) < len(wanted):
            names = ", ".join(map(str, wanted))
            raise InputError(f"One file can't hold two results: {names}. Give each output a name of its own.")
        kept = {path.expanduser().resolve() for path in inputs}
        for path in wanted:
            if path.resolve() in kept:
                raise InputError(f"{path} is read by this command, and would be lost. Write the result elsewhere.")
            check_writable(path)
        for path in drawn:
            check_plot(path)

    def write(self, result: Result) -> None:
        """Write all that is wanted.

        Raises:
            InputError: A file can't be written.
        """
        if self.json is not None:
            write_json(self.json, result.to_json())
        if self.csv is not None:
            _write_csv(self.csv, result.curves)
        if self.plot is not None:
            plot(result.curves, self.plot)
        if self.kept_plot is not None and result.kept is not None:
            kept_plot(result.kept, self.kept_plot)
        if self.report is not None:
            write_report(self.report, result.curves, result.kept, result.provenance)


def files_of(directory: Path, data: Iterable[str] = ()) -> list[Path]:
    """Return the files that a measurement of a model reads, as far as they are named.

    Args:
        directory: The model's directory, an elastic one or any other.
        data: Where its inputs come from.
    """
    manifest = directory / MANIFEST
    names = read_json(manifest).get("files") if manifest.is_file() else None
    # Whether the manifest is whole is seen when the directory is loaded.
    written = [directory / name for name in names] if isinstance(names, dict) else []
    beside = list(directory.iterdir()) if directory.is_dir() else []
    return [manifest, *written, *beside, *map(Path, data)]


def write_json(path: Path, result: Mapping[str, Any]) -> None:
    """Write a result as JSON.

    Raises:
        InputError: The file can't be written.
    """
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(result, indent=1), encoding="utf-8")


def _write_csv(path: Path, curves: Sequence[Curve]) -> None:
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([CSV_COLUMNS, *rows(curves)])
