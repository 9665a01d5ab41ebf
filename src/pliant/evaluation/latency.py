"""Latency: the median time that each size of a curve takes for one input."""

from collections.abc import Callable
from dataclasses import replace

from pliant.batches import Batch
from pliant.elastic import Elastic
from pliant.evaluation.curve import Curve, Latency
from pliant.machine import described
from pliant.speed.timing import interleaved, median


def with_latency(
    curve: Curve,
    elastic: Elastic,
    one: Batch,
    tokens: int,
    *,
    rounds: int | None = None,
    progress: Callable[[float], None] = lambda fraction: None,
) -> Curve:
    """Return a curve with the time that every size, and the full model, takes for one input; all take turns.

    Args:
        curve: The curve.
        elastic: The model that it was measured on.
        one: A batch with one input, on the model's device.
        tokens: Its length.
        rounds: Turns that count; by default as many as fit into 15 s, from 10 to 200.
        progress: Called after each turn with the fraction that is done.

    Raises:
        InputError: The model can't take the input.
    """
    models = {str(point.sparsity): elastic.at(sparsity=point.sparsity) for point in curve.points}
    taken = interleaved({"full": elastic.model, **models}, one, rounds=rounds, watch=progress)
    times = {name: 1000 * median(seconds) for name, seconds in taken.items()}
    points = tuple(replace(point, latency_ms=times[str(point.sparsity)]) for point in curve.points)
    latency = Latency(times["full"], described(elastic.model), tokens, len(taken["full"]))
    return replace(curve, points=points, latency=latency)
