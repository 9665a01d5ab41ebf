"""`pliant bench`: how fast each size is on this machine, against the untouched model in the same run."""

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import torch
import typer

from pliant.artefacts import load_elastic
from pliant.checkpoint import DTYPES, Checkpoint, open_checkpoint
from pliant.cli.calibration import check_image_size
from pliant.cli.console import Json, Quiet, check_positive, emit, numbers, progress, show, show_notes
from pliant.cli.outputs import Outputs, files_of, write_json
from pliant.conventions import MANIFEST, read_json
from pliant.elastic import Elastic
from pliant.errors import InputError
from pliant.evaluation.charts import plot_panels
from pliant.evaluation.speed import speed_panels, speed_table
from pliant.families import describe
from pliant.files import check_writable
from pliant.ranking import Ranking
from pliant.speed import Speed, measure, times_of
from pliant.speed.inputs import inputs_of, length_of, unranked
from pliant.times import TIMES

_SPARSITIES = "0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8"
_UNRANKED = "This model has no ranking: its units leave at random, so that all layers lose about the same share."


def bench(
    model: Annotated[str, typer.Argument(help="An elastic directory; or any model, without a ranking.")],
    sparsity: Annotated[str, typer.Option("--sparsity", "--sparsities", help="Sizes, with commas.")] = _SPARSITIES,
    batches: Annotated[str, typer.Option(help="Batch sizes, with commas.")] = "1,8,32",
    cuts: Annotated[bool, typer.Option("--cuts", help="Time standalone cuts beside the views.")] = False,
    tokens: Annotated[int, typer.Option(help="Length of texts.")] = 128,
    image_size: Annotated[int | None, typer.Option(help="Height and width of images, in pixels.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Turns; by default what fits into 15 s, 10 to 200.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of the CPU; by default as torch has them.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 and so on.")] = "cpu",
    dtype: Annotated[str, typer.Option(help=f"Precision of the weights: {', '.join(DTYPES)}.")] = "auto",
    store: Annotated[bool, typer.Option("--store", help="Keep the times in the directory, for budgets.")] = False,
    margin: Annotated[float, typer.Option(help="Share by which a size may take longer than measured.")] = 0.1,
    plot_path: Annotated[Path | None, typer.Option("--plot", help="Write speed-up and latency as a PNG.")] = None,
    json_path: Annotated[Path | None, typer.Option("--save", help="Write the measurement as JSON.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Time all sizes against the untouched model: latency, throughput, memory, changes of size."""
    for name, value in (("tokens", tokens), ("image-size", image_size), ("rounds", rounds), ("threads", threads)):
        if value is not None:
            check_positive(value, f"--{name}")
    sizes, counts = numbers(sparsity, "--sparsity"), _counts(batches)
    if store:
        _check_storable(Path(model), counts, margin)
    Outputs(plot=plot_path, json=json_path).check(files_of(Path(model)))
    place = _device(device)
    with _threads(threads), progress(quiet or as_json) as report:
        checkpoint, ranking = _opened(model)
        check_image_size(image_size, checkpoint)
        _move_(checkpoint, place, dtype)
        inputs = inputs_of(checkpoint, counts, tokens, image_size)
        original = copy.deepcopy(checkpoint.model)
        length = length_of(original, inputs[0])
        elastic = Elastic(checkpoint.model, ranking or unranked(original, describe(original)))
        name = str(elastic.ranking.provenance.get("model", model))
        found = measure(
            elastic, original, inputs, sizes, model=name, tokens=length, cuts=cuts, rounds=rounds, progress=report
        )
        if store:
            times_of(found, elastic, margin).save(model)
    _write(found, plot_path, json_path)
    show_notes([] if ranking else [_UNRANKED], quiet or as_json)
    show(speed_table(found), quiet or as_json)
    if as_json:
        emit(found.to_json())


def _write(found: Speed, plot_path: Path | None, json_path: Path | None) -> None:
    if json_path is not None:
        write_json(json_path, found.to_json())
    if plot_path is not None:
        plot_panels(speed_panels(found), plot_path)


def _check_storable(directory: Path, counts: tuple[int, ...], margin: float) -> None:
    """Refuse before the measurement what couldn't be kept after it."""
    if not _is_elastic(directory):
        raise InputError(f"{directory} is no elastic directory, which --store keeps times in. Make one: pliant rank.")
    if 1 not in counts:
        raise InputError("--store keeps the time of one input, so --batches must have 1 among them.")
    if not 0 <= margin < math.inf:
        raise InputError(f"--margin {margin} means nothing. Give a share from 0 on, such as 0.1.")
    check_writable(directory / TIMES)


def _is_elastic(directory: Path) -> bool:
    return read_json(directory / MANIFEST).get("form") == "elastic"


def _opened(model: str) -> tuple[Checkpoint, Ranking | None]:
    """Return a checkpoint and, of an elastic directory, its ranking."""
    if _is_elastic(Path(model)):
        return load_elastic(model)
    return open_checkpoint(model), None


def _move_(checkpoint: Checkpoint, device: torch.device, dtype: str) -> None:
    """Put a checkpoint's model on a device, in a precision."""
    if dtype not in DTYPES:
        raise InputError(f"Unknown --dtype {dtype!r}. Allowed: {', '.join(DTYPES)}.")
    precision = None if dtype == "auto" else getattr(torch, dtype)
    checkpoint.model.to(device=device, dtype=precision)


def _counts(text: str) -> tuple[int, ...]:
    found = numbers(text, "--batches")
    if any(count < 1 or count % 1 for count in found):
        raise InputError(f"--batches {text!r} are no numbers of inputs. Give whole ones from 1 on, such as 1,8,32.")
    return tuple(dict.fromkeys(int(count) for count in found))


def _device(name: str) -> torch.device:
    """Return a device that this machine has."""
    try:
        return torch.empty(1, device=name).device
    # What torch raises for a name that it doesn't know, and for a device that it wasn't built for or isn't there.
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0].removesuffix(".")
        raise InputError(f"--device {name!r} can't be used here: {reason}. Use cpu, or a device that is.") from error


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Let torch have so many threads while the block runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
