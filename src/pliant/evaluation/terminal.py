"""The curve as a table for the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pliant.evaluation.curve import Curve, Point
from pliant.evaluation.formatting import NO_VALUE, asked, percent, quantity, ratio, score, with_margin
from pliant.evaluation.labels import label_of
from pliant.evaluation.panels import check_comparable

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


@dataclass(frozen=True)
class _Column:
    """A column: its heading, one cell for each point, and whether the heading may wrap on a narrow screen."""

    heading: str
    cells: tuple[str, ...]
    wraps: bool = False


def _size_columns(points: Sequence[Point]) -> list[_Column]:
    return [
        _Column("sparsity", tuple(asked(point.sparsity) for point in points)),
        _Column("params", tuple(quantity(point.parameters) for point in points)),
        _Column("MACs", tuple(quantity(point.macs) for point in points)),
        *([_Column("ms", tuple(map(_time, points)))] if any(point.latency_ms for point in points) else []),
    ]


def _time(point: Point) -> str:
    return NO_VALUE if point.latency_ms is None else f"{point.latency_ms:.3g}"


def _metric_columns(curve: Curve, metric: str) -> list[_Column]:
    label = label_of(metric)
    columns = [_Column(label.name, tuple(with_margin(point.metrics.get(metric)) for point in curve.points))]
    if label.of_full:
        shares = (percent(ratio(point.value(metric), curve.full_value(metric)), 1) for point in curve.points)
        columns.append(_Column("% of\nfull", tuple(share.rstrip("%").strip() for share in shares)))
    return columns


def _rival_column(curve: Curve, points: Sequence[Point], metric: str) -> _Column:
    found = [curve.at(point.sparsity) for point in points]
    cells = tuple(NO_VALUE if point is None else score(point.value(metric)) for point in found)
    return _Column(f"{label_of(metric).name}\n{curve.ranker}", cells, wraps=True)


def _columns(curves: Sequence[Curve], metrics: Sequence[str]) -> list[_Column]:
    """Return the columns of one task; beside other rankers there is only room for what is most important."""
    ours, *rivals = curves
    wanted = ("main",) if rivals else ("main", "more")
    shown = [metric for metric in metrics if label_of(metric).shown in wanted]
    columns = _size_columns(ours.points)
    columns += [column for metric in shown for column in _metric_columns(ours, metric)]
    return columns + [_rival_column(rival, ours.points, metrics[0]) for rival in rivals]


def _by_task(metrics: Sequence[str]) -> dict[str, list[str]]:
    tasks: dict[str, list[str]] = {}
    for metric in metrics:
        tasks.setdefault(label_of(metric).task, []).append(metric)
    return tasks


def _table(task: str, columns: Sequence[_Column]) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    result = Table(title=Text(task), box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 0, 0, 1))
    for number, column in enumerate(columns):
        # On a narrow screen the names of other rankers wrap; nothing else does.
        lines = [] if column.wraps else column.heading.split("\n")
        result.add_column(
            Text(column.heading),
            justify="right",
            vertical="bottom",
            style="bold" if number == 0 else "",
            min_width=max(map(len, [*lines, *column.cells])),
            overflow="fold",
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        result.add_row(*row)
    return result


def _own(curve: Curve) -> str:
    """Name the full model's own values, where they say more than that it is itself."""
    named = [(label_of(metric), metric) for metric in curve.metrics if metric in curve.full]
    values = [
        f"{' '.join(label.name.split())} {with_margin(curve.full[metric])}" for label, metric in named if label.of_full
    ]
    return f" The full model: {', '.join(values)}." if values else ""


def _timed(curve: Curve) -> str:
    """Say how times were measured."""
    if (found := curve.latency) is None:
        return ""
    return f" ms: median for one input of {found.tokens} tokens; the full model {found.full_ms:.3g}; {found.machine}."


def table(curves: Sequence[Curve]) -> "Group":
    """Return a Rich table for each task of what the first curve's sizes keep, with the other rankers beside it.

    A number is given with its 95 % interval, as value ± half the interval's width, where there is one. A mean of
    several runs is given with half of their range.

    Args:
        curves: Curves of one model on one task.

    Raises:
        InputError: There are no points, or the curves are of different models or tasks.
    """
    from rich.console import Group
    from rich.text import Text

    check_comparable(curves)
    ours = curves[0]
    title = Text(f"{ours.model}, ranked by {ours.ranker}, on {ours.task}")
    margin = "a 95 % interval" if ours.runs == 1 else f"half the range of {ours.runs} runs"
    note = Text(f"± is {margin}. MACs are for an input of {ours.tokens} tokens.{_timed(ours)}{_own(ours)}")
    tables = [_table(task, _columns(curves, metrics)) for task, metrics in _by_task(ours.metrics).items()]
    return Group(title, *tables, note)
