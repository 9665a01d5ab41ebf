"""What the charts of a set of curves show, whatever draws them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pliant.errors import InputError
from pliant.evaluation.axes import SPARSITY, Axis
from pliant.evaluation.curve import Curve
from pliant.evaluation.labels import label_of
from pliant.evaluation.tasks.retrieval import AT

Role = Literal["main", "second", "other"]


@dataclass(frozen=True)
class Line:
    """One line of a panel.

    Args:
        label: What it is called, beside its last point.
        role: `main` is the first curve, `second` another reading of it, `other` the rest.
        color: Position in the drawing's list of colours: one per curve.
        points: Place on the axis and value, from the largest model to the smallest.
        band: The band around the line: place, its lower and its upper edge; empty without one.
    """

    label: str
    role: Role
    color: int
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True)
class Panel:
    """One chart: lines over a measure of size, and where the full model stands.

    Args:
        title: What is shown.
        note: How to read it, in one sentence.
        lines: The lines, the most important last, so that it is drawn on top.
        reference: The full model's value.
        axis: What the size is measured by.
    """

    title: str
    note: str
    lines: tuple[Line, ...]
    reference: float
    axis: Axis = SPARSITY

    @property
    def places(self) -> tuple[float, ...]:
        """All places that some line has, ascending."""
        return tuple(sorted({place for line in self.lines for place, _ in line.points}))

    @property
    def marks(self) -> tuple[float, ...]:
        """Where the axis has a number: at each sparsity, else at round numbers between the first place and the last."""
        places = self.places
        if self.axis is SPARSITY or places[0] == places[-1]:
            return places
        return tuple(mark for mark in ticks(places[0], places[-1]) if places[0] <= mark <= places[-1])

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


def panels(curves: Sequence[Curve], axis: Axis = SPARSITY) -> tuple[Panel, ...]:
    """Return the charts for `curves`, the first being the one to emphasise: one for each task that was measured.

    Args:
        curves: Curves of one model on one task.
        axis: What size is measured by; the first curve must have it.

    Raises:
        InputError: There are no points, or the curves are of different models or tasks.
    """
    check_comparable(curves)
    ours, drawing = curves[0], _Drawing(curves, axis)
    found = [drawing.cosine()] if "cosine" in ours.metrics else []
    for metric in ours.metrics:
        full = ours.full_value(metric)
        if label_of(metric).of_full and full is not None:
            found.append(drawing.ndcg(full) if metric == "ndcg_slim_queries" else drawing.metric(metric, full))
    return tuple(found) or (drawing.metric(ours.metrics[0], 1.0),)


@dataclass(frozen=True)
class _Drawing:
    """What all charts of a set of curves have in common."""

    curves: Sequence[Curve]
    axis: Axis

    def cosine(self) -> Panel:
        main = self._main("cosine")
        tokens = Line("token outputs", "second", 0, self._values(self.curves[0], "token_cosine"))
        note = "Mean cosine to the full model's embedding."
        if self.curves[0].runs == 1:
            worst = dict(self._values(self.curves[0], "worst_cosine"))
            band = tuple((place, worst[place], value) for place, value in main.points if place in worst)
            main = replace(main, band=band)
            note += " The band reaches down to the worst one in twenty."
        if tokens.points:
            note += " Dashed: of token outputs."
        return self._panel("Fidelity", note, [*self._others("cosine"), tokens, main], 1.0)

    def ndcg(self, full: float) -> Panel:
        both = Line("both slim", "second", 0, self._values(self.curves[0], "ndcg_both_slim"))
        note = f"nDCG@{AT} of slim queries against the full model's index; dashed, of queries and index both slim."
        name = "ndcg_slim_queries"
        return self._panel("Retrieval", note, [*self._others(name), both, self._main(name)], full)

    def metric(self, metric: str, full: float) -> Panel:
        label = label_of(metric)
        lines = [*self._others(metric), self._main(metric)]
        return self._panel(label.task.capitalize(), f"{' '.join(label.name.split())} by size.", lines, full)

    def _panel(self, title: str, note: str, lines: Sequence[Line], reference: float) -> Panel:
        runs = max(curve.runs for curve in self.curves)
        note += "" if runs == 1 else f" Mean of {runs} runs; bands are from the lowest to the highest."
        return Panel(title, note, tuple(line for line in lines if line.points), reference, self.axis)

    def _main(self, metric: str) -> Line:
        ours = self.curves[0]
        return Line(ours.ranker, "main", 0, self._values(ours, metric), self._range(ours, metric))

    def _others(self, metric: str) -> list[Line]:
        return [
            Line(curve.ranker, "other", color, self._values(curve, metric), self._range(curve, metric))
            for color, curve in enumerate(self.curves)
            if color
        ]

    def _values(self, curve: Curve, metric: str) -> tuple[tuple[float, float], ...]:
        found = ((self.axis.of(point), point.value(metric)) for point in curve.points)
        return tuple((place, number) for place, number in found if place is not None and number is not None)

    def _range(self, curve: Curve, metric: str) -> tuple[tuple[float, float, float], ...]:
        """Return the band from the lowest of several runs to the highest."""
        if curve.runs == 1:
            return ()
        found = ((self.axis.of(point), point.metrics.get(metric)) for point in curve.points)
        return tuple(
            (place, metric.low, metric.high)
            for place, metric in found
            if place is not None and metric is not None and metric.low is not None and metric.high is not None
        )


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
