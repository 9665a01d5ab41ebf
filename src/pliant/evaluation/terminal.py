"""The curve as a table for the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pliant.evaluation.curve import NDCG_AT, Curve, Point
from pliant.evaluation.formatting import NO_VALUE, asked, percent, quantity, ratio, score
from pliant.evaluation.panels import check_comparable

if TYPE_CHECKING:
    from rich.table import Table


def _columns(curves: Sequence[Curve]) -> list[str]:
    columns = ["sparsity", "params", "MACs", "cosine"]
    # Beside other rankers there is no room for it on a screen of 80 columns.
    if len(curves) == 1:
        columns.append("worst\n5 %")
    if curves[0].has_tokens:
        columns.append("cosine\ntokens")
    if curves[0].full_ndcg is not None:
        columns += ["nDCG\nslim\nquery", "% of\nfull", "nDCG\nboth\nslim"]
    return columns + [f"cosine\n{curve.ranker}" for curve in curves[1:]]


def _cells(curves: Sequence[Curve], point: Point) -> list[str]:
    cells = [asked(point.sparsity), quantity(point.parameters), quantity(point.macs), score(point.cosine)]
    if len(curves) == 1:
        cells.append(score(point.worst_cosine))
    if curves[0].has_tokens:
        cells.append(score(point.token_cosine))
    full = curves[0].full_ndcg
    if full is not None:
        kept = percent(ratio(point.ndcg_slim_queries, full), 1).rstrip("%").strip()
        cells += [score(point.ndcg_slim_queries), kept, score(point.ndcg_both_slim)]
    others = [curve.at(point.sparsity) for curve in curves[1:]]
    return cells + [NO_VALUE if other is None else score(other.cosine) for other in others]


def table(curves: Sequence[Curve]) -> "Table":
    """Return a Rich table of what each size of the first curve keeps, with the other rankers' cosines beside it.

    Args:
        curves: Curves of one model on one task.

    Raises:
        InputError: There are no points, or the curves are of different models or tasks.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    check_comparable(curves)
    ours = curves[0]
    full = "" if ours.full_ndcg is None else f" The full model's nDCG@{NDCG_AT} is {score(ours.full_ndcg)}."
    result = Table(
        title=Text(f"{ours.model}, ranked by {ours.ranker}, on {ours.task}"),
        caption=Text(f"MACs are for an input of {ours.tokens} tokens.{full}"),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        padding=(0, 0, 0, 1),
    )
    rows = [_cells(curves, point) for point in ours.points]
    for number, name in enumerate(_columns(curves)):
        # On a narrow screen the names of other rankers wrap; nothing else does.
        lines = [] if number >= len(rows[0]) - len(curves) + 1 else name.split("\n")
        widest = max(len(text) for text in [*lines, *(row[number] for row in rows)])
        style = "bold" if number == 0 else ""
        result.add_column(
            Text(name), justify="right", vertical="bottom", style=style, min_width=widest, overflow="fold"
        )
    for row in rows:
        result.add_row(*row)
    return result
