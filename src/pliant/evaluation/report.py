"""The report: one HTML file with the curves, their numbers, and how they were made."""

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from pliant.anatomy import Kind, Site
from pliant.evaluation.axes import axes
from pliant.evaluation.curve import Curve, Point
from pliant.evaluation.formatting import NO_VALUE, asked, percent, quantity, ratio, score
from pliant.evaluation.kept import Kept
from pliant.evaluation.knee import knee
from pliant.evaluation.labels import label_of
from pliant.evaluation.panels import Panel, check_comparable, panels
from pliant.evaluation.svg import draw
from pliant.evaluation.tasks.retrieval import AT
from pliant.files import replacing

# Beyond these shares, a cell's colour wants the other ink, black or white: on a dark page, and on a light one.
_MID, _DEEP = 0.57, 0.87

_TILES = 6

_COSINES = {
    "cosine": "mean cosine to the full model's embeddings",
    "token_cosine": "mean cosine to its token outputs",
}

NDCG = "ndcg_slim_queries"
"""What stands for retrieval where there is room for one number."""


def _number(value: float | None, shown: str) -> str:
    """A number as readers see it, with its exact value for programs; a dash for none."""
    return NO_VALUE if value is None else f'<data value="{value!r}">{escape(shown)}</data>'


def _tile(number: str, what: str) -> str:
    return f'<div class="tile"><b>{number}</b><span>{escape(what)}</span></div>'


def _tiles(curve: Curve) -> str:
    """The size nearest to half, in a few large figures."""
    point = min(curve.points, key=lambda candidate: abs(candidate.sparsity - 0.5))
    size = f"of {quantity(curve.full_parameters)} parameters"
    work = f"of {quantity(curve.full_macs)} MACs at {curve.tokens} tokens"
    tiles = [
        _tile(_number(point.sparsity, asked(point.sparsity)), "of prunable parameters removed, which leaves"),
        _tile(_number(point.parameters, percent(ratio(point.parameters, curve.full_parameters))), size),
        _tile(_number(point.macs, percent(ratio(point.macs, curve.full_macs))), work),
    ]
    if curve.latency is not None and point.latency_ms is not None:
        time = f"of {curve.latency.full_ms:.3g} ms for one input of {curve.latency.tokens} tokens"
        tiles.append(_tile(_number(point.latency_ms, percent(ratio(point.latency_ms, curve.latency.full_ms))), time))
    for metric, meaning in _COSINES.items():
        if (cosine := point.value(metric)) is not None:
            tiles.append(_tile(_number(cosine, score(cosine)), meaning))
    share = ratio(point.value(NDCG), curve.full_value(NDCG))
    if share is not None:
        full = f"of nDCG@{AT} {score(curve.full_value(NDCG))}, slim queries against the full index"
        tiles.append(_tile(_number(point.value(NDCG), percent(share, 1)), full))
    # More than six in a row would be narrow: two rows, the first the longer one.
    columns = len(tiles) if len(tiles) <= _TILES else math.ceil(len(tiles) / 2)
    return f'<div class="tiles" style="--columns: {columns}">{"".join(tiles)}</div>'


def _chart(panel: Panel) -> str:
    heading = f"<h3>{escape(panel.title)}</h3>"
    return f'<figure class="card">{heading}<p class="note">{escape(panel.note)}</p>{draw(panel)}</figure>'


def _charts(curves: Sequence[Curve]) -> str:
    """Return the charts once for each axis, and what a reader chooses the axis by; the page's style shows one set."""
    shown = axes(curves)
    choices = "".join(
        f'<input type="radio" name="axis" id="by-{axis.name}"{" checked" if axis is shown[0] else ""}>'
        f'<label for="by-{axis.name}">{escape(axis.choice)}</label>'
        for axis in shown
    )
    sets = "".join(
        f'<div class="pair by by-{axis.name}">{"".join(_chart(panel) for panel in panels(curves, axis))}</div>'
        for axis in shown
    )
    return f'<div class="axes"><span>Size by</span>{choices}{sets}</div>'


def _table(kind: str, label: str, columns: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<table class="{kind}" aria-label="{escape(label)}">{body}</table>'


def _scrolling(table: str, label: str) -> str:
    # Reachable by keyboard, as a narrow screen can't show all columns at once.
    return f'<div class="scroll" role="region" aria-label="{escape(label)}" tabindex="0">{table}</div>'


def _row(head: str, cells: Sequence[str]) -> str:
    return f'<tr><th scope="row">{head}</th>{"".join(cells)}</tr>'


def _of_full(value: float, whole: float) -> str:
    return f"<td>{_number(value, quantity(value))} <small>{percent(ratio(value, whole))}</small></td>"


def _scored(value: float | None, kind: str = "") -> str:
    return f"<td{kind}>{_number(value, score(value))}</td>"


def _numbers_row(curve: Curve, point: Point) -> str:
    cells = [f"<td>{_number(point.achieved_sparsity, percent(point.achieved_sparsity, 1))}</td>"]
    cells += [_of_full(point.parameters, curve.full_parameters), _of_full(point.macs, curve.full_macs)]
    if curve.latency is not None:
        time = _number(point.latency_ms, NO_VALUE if point.latency_ms is None else f"{point.latency_ms:.3g}")
        cells.append(f"<td>{time} <small>{percent(ratio(point.latency_ms, curve.latency.full_ms))}</small></td>")
    for metric in curve.metrics:
        cells.append(_scored(point.value(metric)))
        if label_of(metric).of_full:
            cells.append(f"<td>{percent(ratio(point.value(metric), curve.full_value(metric)), 1)}</td>")
    return _row(_number(point.sparsity, asked(point.sparsity)), cells)


def _heading(metric: str) -> str:
    return escape(label_of(metric).name).replace("\n", "<br>")


def _numbers(curve: Curve) -> str:
    columns = ["Sparsity<br>asked", "Sparsity<br>achieved", "Parameters", f"MACs at<br>{curve.tokens} tokens"]
    columns += [] if curve.latency is None else [f"ms, {curve.latency.tokens}<br>tokens"]
    for metric in curve.metrics:
        columns += [_heading(metric), "of full"] if label_of(metric).of_full else [_heading(metric)]
    table = _table("numbers", "Numbers by size", columns, [_numbers_row(curve, point) for point in curve.points])
    return _scrolling(table, "Numbers by size")


def _knee_note(curve: Curve) -> str:
    """Say where the first curve bends, by the metric of its first chart."""
    metric = "cosine" if "cosine" in curve.metrics else curve.metrics[0]
    found = knee(curve, metric)
    if found is None:
        return "No size stands out: quality falls about as fast as the model shrinks."
    size, name = _number(found.sparsity, asked(found.sparsity)), escape(" ".join(label_of(metric).name.split()))
    return f"The knee is at {size}: until there the model shrinks faster than its {name} falls, beyond it more slowly."


def _numbers_note(curve: Curve) -> str:
    note = "Small figures: percent of the full model."
    if (full := curve.full_value(NDCG)) is not None:
        note += f" Its nDCG@{AT} is {_number(full, score(full))}."
    if (latency := curve.latency) is not None:
        note += f" Its median time for one input is {_number(latency.full_ms, f'{latency.full_ms:.3g}')} ms."
    return note if curve.runs == 1 else f"{note} All numbers are means of {curve.runs} runs."


def _rival_rows(curves: Sequence[Curve], sparsity: float, metrics: Sequence[str]) -> str:
    found = [curve.at(sparsity) for curve in curves]
    kinds = [' class="ours"', *[""] * (len(curves) - 1)]
    cells = [
        _scored(point and point.value(metric), kind)
        for metric in metrics
        for point, kind in zip(found, kinds, strict=True)
    ]
    return _row(_number(sparsity, asked(sparsity)), cells)


def _rivals(curves: Sequence[Curve]) -> str:
    """All rankers beside each other, where there are several."""
    if len(curves) < 2:
        return ""
    metrics = [metric for metric in curves[0].metrics if label_of(metric).compared]
    columns = ["Sparsity", *(f"{escape(curve.ranker)}<br>{_heading(metric)}" for metric in metrics for curve in curves)]
    sparsities = sorted({point.sparsity for curve in curves for point in curve.points})
    rows = [_rival_rows(curves, size, metrics) for size in sparsities]
    table = _table("numbers", "Rankers compared", columns, rows)
    note = "The same model, sizes and inputs, with its units in another order."
    heading = f'<h2>Against other rankings</h2><p class="note">{note}</p>'
    return f"<section>{heading}{_scrolling(table, 'Rankers compared')}</section>"


def _kept_cell(site: Site, width: int) -> str:
    share = width / site.units
    shown = "&lt;1" if 0 < share < 0.005 else f"{100 * share:.0f}"
    ink = ' class="deep"' if share > _DEEP else ' class="mid"' if share > _MID else ""
    title = escape(f"{site.name}: {width} of {site.units} {site.kind}")
    return f'<td{ink} style="--share: {share:.3f}" title="{title}"><data value="{width}">{shown}</data></td>'


def _kept_map(kept: Kept, kind: Kind) -> str:
    columns = ['<span title="layer">↓</span>', *(f"{round(100 * size, 1):g}" for size in kept.sparsities)]
    rows = [_row(str(site.layer), [_kept_cell(site, width) for width in widths]) for site, widths in kept.rows(kind)]
    table = _table("kept", f"{kind} kept", columns, rows)
    note = f"% of each layer's {kind} (rows, from the input up) that each sparsity (columns, in %) keeps."
    return f'<figure class="card"><h3>{kind.capitalize()}</h3><p class="note">{note}</p>{table}</figure>'


def _kept(kept: Kept | None) -> str:
    if kept is None:
        return ""
    maps = "".join(_kept_map(kept, kind) for kind in kept.kinds)
    return f'<section><h2>Where the units stay</h2><div class="pair">{maps}</div></section>'


def _plain(value: object) -> str:
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return NO_VALUE if value is None else str(value)


def _provenance(provenance: Mapping[str, object]) -> str:
    entries = (f"<dt>{escape(key)}</dt><dd>{escape(_plain(value))}</dd>" for key, value in provenance.items())
    return f"<section><h2>How it was made</h2><dl>{''.join(entries)}</dl></section>" if provenance else ""


def _latency_help(curve: Curve) -> str:
    if (found := curve.latency) is None:
        return ""
    meaning = (
        f"The median time for one input of {found.tokens} tokens, of {found.rounds} turns in which the full model and "
        f"all sizes came once. Measured on {found.machine}."
    )
    return f"<dt>Time</dt><dd>{escape(meaning)}</dd>"


def _ndcg_help(curve: Curve) -> str:
    if curve.full_value(NDCG) is None:
        return ""
    meaning = (
        f"How well the relevant documents come first among the first {AT}. Slim queries: the index is the full "
        "model's and stays as it is. Both slim: the documents are embedded by the slim model too."
    )
    return f"<dt>nDCG@{AT}</dt><dd>{meaning}</dd>"


def _page(curves: Sequence[Curve], kept: Kept | None, provenance: Mapping[str, object]) -> str:
    check_comparable(curves)
    ours = curves[0]
    template = files("pliant.evaluation").joinpath("report.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        model=escape(ours.model),
        ranker=escape(ours.ranker),
        task=escape(ours.task),
        tokens=ours.tokens,
        tiles=_tiles(ours),
        runs="" if ours.runs == 1 else f"; mean of <b>{ours.runs} runs</b>",
        charts=_charts(curves),
        knee_note=_knee_note(ours),
        numbers_note=_numbers_note(ours),
        numbers=_numbers(ours),
        rivals=_rivals(curves),
        kept=_kept(kept),
        more_help=_ndcg_help(ours) + _latency_help(ours),
        provenance=_provenance(provenance),
    )


def write_report(
    path: str | Path, curves: Sequence[Curve], kept: Kept | None, provenance: Mapping[str, object]
) -> None:
    """Write one HTML file that needs nothing else: charts, numbers, what each layer keeps, and how it was made.

    Every number is in a `<data>` element whose value is the exact one of `Curve.to_json`.

    Args:
        path: The file to write; what was there is replaced only when all is written.
        curves: Curves of one model on one task; the first is emphasised.
        kept: What each size keeps of each layer; None leaves that part out.
        provenance: How it was made: names and values, shown in this order; where there are none, that part is left out.

    Raises:
        InputError: There are no points, the curves don't belong together, or the path can't be written.
    """
    page = _page(curves, kept, provenance)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
