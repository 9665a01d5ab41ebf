"""Measuring the speed of a ladder of sizes, against the untouched model."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from pliant.batches import Batch, device_of, precision_of, size
from pliant.budget import Cut
from pliant.elastic import Elastic
from pliant.errors import InputError
from pliant.machine import device_name
from pliant.speed.memory import peak_bytes
from pliant.speed.result import Form, Size, Speed, Timing
from pliant.speed.switching import switching
from pliant.speed.timing import interleaved, median, percentile

Progress = Callable[[str, float], None]
"""Called with what is being done and the fraction of the whole that is done."""


@dataclass(frozen=True)
class _Runner:
    """A model of the ladder, and what is known of it before it runs."""

    model: nn.Module
    size: Size


def measure(
    elastic: Elastic,
    original: nn.Module,
    batches: Sequence[Batch],
    sparsities: Iterable[float],
    *,
    model: str,
    tokens: int | None = None,
    cuts: bool = False,
    rounds: int | None = None,
    switches: int = 300,
    progress: Progress = lambda label, fraction: None,
) -> Speed:
    """Time all sizes and the untouched model, which take turns, batch size after batch size.

    Args:
        elastic: The elastic model.
        original: The model as it was, apart from the elastic one: it shares no weights with it.
        batches: One for each batch size, on the models' device, all of the same length.
        sparsities: The sizes; repeated ones count once.
        model: The model's name.
        tokens: Length of the inputs, for the MACs; by default the model's native one.
        cuts: Whether standalone cuts are timed beside the views; each has weights of its own.
        rounds: Turns that count, for each batch size; by default as many as fit into 15 s, from 10 to 200.
        switches: How many changes of size are timed, up to the highest of the sparsities; none for 0.
        progress: Called after each turn.

    Raises:
        InputError: There are no sparsities or batches, two batches have one size, or a model can't take one.
        BudgetError: A sparsity can't be met.
    """
    asked = sorted(set(sparsities))
    counts = [size(batch) for batch in batches]
    if not asked or not counts or len(set(counts)) < len(counts):
        raise InputError(f"{len(asked)} sparsities and batches of {counts} inputs: give at least one of each, once.")
    planned = {sparsity: elastic.plan(sparsity=sparsity) for sparsity in asked}
    progress("changing size", 0)
    switched = switching(elastic, switches, asked[-1]) if switches else None
    runners = _runners(elastic, original, planned, tokens, cuts)
    timings: dict[str, list[Timing]] = {name: [] for name in runners}
    models = {name: runner.model for name, runner in runners.items()}
    for done, batch in enumerate(batches):
        report = _reporting(progress, counts[done], done, len(batches))
        for name, timing in _timed(models, batch, rounds, report).items():
            timings[name].append(timing)
    device = device_of(original)
    return Speed(
        model=model,
        ranker=str(elastic.ranking.provenance.get("ranker", "ranking")),
        device=device.type,
        device_name=device_name(device),
        threads=torch.get_num_threads(),
        precision=precision_of(original),
        torch=torch.__version__,
        tokens=tokens or elastic.anatomy.native_tokens,
        image_size=_image_size(batches[0]),
        sizes=tuple(replace(runner.size, timings=tuple(timings[name])) for name, runner in runners.items()),
        switching=switched,
    )


def _runners(
    elastic: Elastic, original: nn.Module, planned: Mapping[float, Cut], tokens: int | None, cuts: bool
) -> dict[str, _Runner]:
    """Return the models by name, the untouched one first."""
    whole = Size("original", 0.0, 0.0, elastic.anatomy.total_parameters, elastic.anatomy.macs(tokens), ())
    found = {"original": _Runner(original, whole)}
    forms: tuple[Form, ...] = ("view", "cut") if cuts else ("view",)
    for form in forms:
        for sparsity, cut in planned.items():
            cost = elastic.cost(cut, tokens)
            about = Size(form, sparsity, cost.sparsity, cost.parameters, cost.macs, ())
            made = elastic.at(sparsity=sparsity) if form == "view" else elastic.cut(sparsity=sparsity)
            found[f"{form} {sparsity}"] = _Runner(made, about)
    return found


def _timed(
    models: Mapping[str, nn.Module], batch: Batch, rounds: int | None, watch: Callable[[float], None]
) -> dict[str, Timing]:
    taken = interleaved(models, batch, rounds=rounds, watch=watch)
    return {
        name: Timing(
            batch_size=size(batch),
            rounds=len(seconds),
            p50_ms=1000 * median(seconds),
            p99_ms=1000 * percentile(seconds, 0.99),
            peak_bytes=peak_bytes(models[name], batch),
        )
        for name, seconds in taken.items()
    }


def _reporting(progress: Progress, inputs: int, done: int, whole: int) -> Callable[[float], None]:
    return lambda fraction: progress(f"batches of {inputs}", (done + fraction) / whole)


def _image_size(batch: Batch) -> tuple[int, int] | None:
    """Return height and width of the images in a batch; None for words, and for images that are already patches."""
    images = batch if isinstance(batch, torch.Tensor) else batch.get("pixel_values")
    if images is None or images.dim() != 4:
        return None
    height, width = images.shape[-2:]
    return int(height), int(width)
