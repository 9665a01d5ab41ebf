"""What a model's size can be measured by: the horizontal axes of the charts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pliant.evaluation.curve import Curve, Point
from pliant.evaluation.formatting import quantity, rounded


@dataclass(frozen=True)
class Axis:
    """A measure of size; all axes have the full model on the left.

    Args:
        name: What it is called in the page's code.
        choice: What a reader chooses it by.
        label: What is written below it.
        of: A point's place on it; None where that wasn't measured.
        tick: What is written at a place.
        place: How a place is named in a sentence.
        falls: Whether the full model has the highest value, so that values fall to the right.
    """

    name: str
    choice: str
    label: str
    of: Callable[[Point], float | None]
    tick: Callable[[float], str]
    place: Callable[[float], str]
    falls: bool = True


SPARSITY = Axis(
    "sparsity",
    "sparsity",
    "prunable parameters removed, %",
    lambda point: point.sparsity,
    lambda value: f"{round(100 * value, 1):g}",
    lambda value: f"{100 * value:g} % removed",
    falls=False,
)

_PARAMETERS = Axis(
    "parameters",
    "parameters",
    "parameters of the whole model",
    lambda point: point.parameters,
    rounded,
    lambda value: f"{quantity(value)} parameters",
)

_LATENCY = Axis(
    "latency",
    "measured latency",
    "median time for one input, ms",
    lambda point: point.latency_ms,
    lambda value: f"{value:g}",
    lambda value: f"{value:.3g} ms",
)


def axes(curves: Sequence[Curve]) -> tuple[Axis, ...]:
    """Return all axes that the first curve can be shown on, sparsity first; MACs are at the curve's length."""
    ours = curves[0]
    macs = Axis(
        "macs",
        "MACs",
        f"multiply-accumulates for {ours.tokens} tokens",
        lambda point: point.macs,
        rounded,
        lambda value: f"{quantity(value)} MACs",
    )
    timed = all(point.latency_ms is not None for point in ours.points)
    return (SPARSITY, _PARAMETERS, macs, *([_LATENCY] if timed else []))
