"""What the charts of a set of curves show, whatever draws them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pliant.errors import InputError
from pliant.evaluation.curve import Curve
from pliant.evaluation.labels import label_of
from pliant.evaluation.tasks.retrieval import AT

REMOVED = "prunable parameters removed, %"
"""What the horizontal axis of each chart is."""

Role = Literal["main", "second", "other"]


@dataclass(frozen=True)
class Line:
    """One line of a panel.

    Args:
        label: What it is called, beside its last point.
        role: `main` is the first curve, `second` another reading of it, `other` the rest.
        color: Position in the drawing's list of colours: one per curve.
        points: Sparsity and value, ascending in sparsity.
        band: The band around the line: sparsity, its lower and its upper edge; empty without one.
    """

    label: str
    role: Role
    color: int
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True)
class Panel:
    """One chart: lines over sparsity, and where the full model stands.

    Args:
        title: What is shown.
        note: How to read it, in one sentence.
        lines: The lines, the most important last, so that it is drawn on top.
        reference: The full model's value.
        sparsities: All sparsities that some line has, ascending.
    """

    title: str
    note: str
    lines: tuple[Line, ...]
    reference: float
    sparsities: tuple[float, ...]

    @property
    def values(self) -> tuple[float, ...]:
        """All values that must fit in the chart."""
        edges = (value for line in self.lines for _, low, high in line.band for value in (low, high))
        return (self.reference, *(value for line in self.lines for _, value in line.points), *edges)

    @property
    def rises(self) -> bool:
        """Whether the most important line ends above the full model, whose name is in its way above."""
        return self.lines[-1].points[-1][1] > self.reference


def check_comparable(curves: Sequence[Curve]) -> None:
    """Raise `InputError` unless there are curves, all with points, of one model on one task."""
    if not curves or any(not curve.points or not curve.metrics for curve in curves):
        raise InputError(f"{len(curves)} curves, or one without points: there is nothing to show. Measure one first.")
    subjects = {(curve.model, curve.task, curve.tokens) for curve in curves}
    if len(subjects) > 1:
        raise InputError(
            f"Curves of different models or tasks can't share a chart: {sorted(subjects)}. Show each set on its own."
        )


def panels(curves: Sequence[Curve]) -> tuple[Panel, ...]:
    """Return the charts for `curves`, the first being the one to emphasise: one for each task that was measured.

    Raises:
        InputError: There are no points, or the curves are of different models or tasks.
    """
    check_comparable(curves)
    ours = curves[0]
    found = [_cosine_panel(curves)] if "cosine" in ours.metrics else []
    for metric in ours.metrics:
        full = ours.full_value(metric)
        if label_of(metric).of_full and full is not None:
            retrieval = metric == "ndcg_slim_queries"
            found.append(_ndcg_panel(curves, full) if retrieval else _metric_panel(curves, metric, full))
    return tuple(found) or (_metric_panel(curves, ours.metrics[0], 1.0),)


def _values(curve: Curve, metric: str) -> tuple[tuple[float, float], ...]:
    found = ((point.sparsity, point.value(metric)) for point in curve.points)
    return tuple((sparsity, number) for sparsity, number in found if number is not None)


def _others(curves: Sequence[Curve], metric: str) -> list[Line]:
    lines = [Line(curve.ranker, "other", color, _values(curve, metric)) for color, curve in enumerate(curves) if color]
    return [line for line in lines if line.points]


def _panel(title: str, note: str, lines: Sequence[Line], reference: float) -> Panel:
    sparsities = sorted({sparsity for line in lines for sparsity, _ in line.points})
    return Panel(title, note, tuple(lines), reference, tuple(sparsities))


def _cosine_panel(curves: Sequence[Curve]) -> Panel:
    ours = curves[0]
    values = _values(ours, "cosine")
    worst = dict(_values(ours, "worst_cosine"))
    band = tuple((sparsity, worst[sparsity], value) for sparsity, value in values if sparsity in worst)
    main = Line(ours.ranker, "main", 0, values, band)
    tokens = Line("token outputs", "second", 0, _values(ours, "token_cosine"))
    note = "Mean cosine to the full model's embedding. The band reaches down to the worst one in twenty."
    if tokens.points:
        note += " Dashed: of token outputs."
    others = _others(curves, "cosine")
    return _panel("Fidelity", note, [*others, *([tokens] if tokens.points else []), main], 1.0)


def _ndcg_panel(curves: Sequence[Curve], full: float) -> Panel:
    ours = curves[0]
    both = Line("both slim", "second", 0, _values(ours, "ndcg_both_slim"))
    main = Line(ours.ranker, "main", 0, _values(ours, "ndcg_slim_queries"))
    others = _others(curves, "ndcg_slim_queries")
    note = f"nDCG@{AT} of slim queries against the full model's index; dashed, of queries and index both slim."
    return _panel("Retrieval", note, [*others, *(line for line in (both, main) if line.points)], full)


def _metric_panel(curves: Sequence[Curve], metric: str, full: float) -> Panel:
    label = label_of(metric)
    main = Line(curves[0].ranker, "main", 0, _values(curves[0], metric))
    lines = [*_others(curves, metric), main]
    return _panel(label.task.capitalize(), f"{' '.join(label.name.split())} by size.", lines, full)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about `count` round numbers, evenly spaced, whose first and last enclose `low` and `high`."""
    span = max(high - low, 1e-3)
    magnitude = 10.0 ** math.floor(math.log10(span / count))
    step = next(magnitude * factor for factor in (1, 2, 5, 10) if magnitude * factor * count >= span * (1 - 1e-9))
    # Without the slack, 0.3 / 0.1 = 2.9999999999999996 would start one tick early.
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, max(last, first + 1) + 1)]


def spread(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move labels at `positions` apart to at least `gap`, keeping their order and staying in [low, high] if they fit.

    Example:
        >>> spread([10.0, 11.0, 40.0], 10.0, 0.0, 100.0)
        [10.0, 20.0, 40.0]
    """
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    placed = list(positions)
    least = low
    for i in order:
        placed[i] = max(positions[i], least)
        least = placed[i] + gap
    most = high
    for i in reversed(order):
        placed[i] = min(placed[i], most)
        most = placed[i] - gap
    return placed


def spaced(places: Sequence[float], gap: float) -> list[int]:
    """Return which of ascending `places` can carry a label when labels need `gap`; the first and the last always do."""
    if len(places) < 2:
        return list(range(len(places)))
    chosen = [0]
    for i in range(1, len(places) - 1):
        if places[i] - places[chosen[-1]] >= gap and places[-1] - places[i] >= gap:
            chosen.append(i)
    return [*chosen, len(places) - 1]


def shorten(label: str, most: int = 20) -> str:
    """Return `label`, cut with an ellipsis where it is longer than `most` characters."""
    return label if len(label) <= most else label[: most - 1].rstrip() + "…"
