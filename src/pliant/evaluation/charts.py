"""Pictures of the curves, and of what each size keeps, as PNG files."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pliant.anatomy import Kind
from pliant.errors import InputError, MissingExtraError
from pliant.evaluation.axes import SPARSITY
from pliant.evaluation.curve import Curve
from pliant.evaluation.kept import Kept
from pliant.evaluation.panels import Line, Panel, panels, shorten, spaced, spread, ticks
from pliant.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

INK, MUTED, GRID, PAPER = "#1f2328", "#6b7078", "#e6e4de", "#ffffff"
COLORS = ("#0f6e72", "#c2762a", "#7a62b0", "#b5485d", "#5f7d3a", "#4a76b8", "#8a6d4b", "#71767e")
"""One colour per curve, the emphasised one first."""

_STYLE: "dict[RcKeyType, Any]" = {
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
}


def check_plot(path: str | Path) -> None:
    """Refuse a plot that can't be made, for whom it is only the end of long work.

    Raises:
        InputError: The path doesn't end in .png.
        MissingExtraError: matplotlib is not installed.
    """
    if Path(path).suffix.lower() != ".png":
        raise InputError(f"{str(path)!r} doesn't end in .png, and a plot is always a PNG. Give it that ending.")
    try:
        import_module("matplotlib")
    except ImportError as error:
        raise MissingExtraError("A plot", "demo") from error


def _figure(width: float, height: float) -> "Figure":
    # Figure itself, not pyplot: no global state, no window system, safe in threads.
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.16, h_pad=0.14, wspace=0.04))


def _write_png(figure: "Figure", path: str | Path) -> None:
    with replacing(path) as temporary:
        # Without matplotlib's version in it, the file depends on its picture alone.
        figure.savefig(temporary, format="png", dpi=160, metadata={"Software": None})


def _draw_line(axes: "Axes", line: Line) -> None:
    xs, ys = [x for x, _ in line.points], [y for _, y in line.points]
    color, ours = COLORS[line.color % len(COLORS)], line.role != "other"
    width = {"main": 2.4, "second": 1.5, "other": 1.3}[line.role]
    style = (0, (4, 2)) if line.role == "second" else "-"
    size = 4.5 if line.role == "main" else 2.6
    axes.plot(
        xs, ys, color=color, linewidth=width, linestyle=style, marker="o", markersize=size, zorder=4 if ours else 3
    )
    if line.band:
        places, low, high = zip(*line.band, strict=True)
        axes.fill_between(places, low, high, color=color, alpha=0.12, linewidth=0, zorder=2)


def _label_lines(axes: "Axes", panel: Panel, marks: list[float]) -> None:
    # A label's height in data units: 13 points of an axis about 220 points high.
    gap = 13 / 220 * (marks[-1] - marks[0])
    ends = [line.points[-1] for line in panel.lines]
    heights = spread([y for _, y in ends], gap, marks[0], marks[-1])
    right = panel.places[0 if panel.axis.falls else -1]
    for line, height in zip(panel.lines, heights, strict=True):
        axes.annotate(
            shorten(line.label),
            (right, height),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            color=COLORS[line.color % len(COLORS)],
            fontweight="bold" if line.role == "main" else "normal",
            annotation_clip=False,
        )


def _mark_sizes(axes: "Axes", panel: Panel) -> None:
    # A label needs a seventeenth of the axis.
    marks = panel.marks
    shown = [marks[i] for i in spaced(marks, (panel.places[-1] - panel.places[0]) / 17)]
    axes.set_xticks(shown, [panel.axis.tick(mark) for mark in shown])
    axes.set_xlabel(panel.axis.label)
    if panel.axis.falls:
        axes.invert_xaxis()


def _draw_panel(axes: "Axes", panel: Panel) -> None:
    marks = ticks(min(panel.values), max(panel.values))
    axes.axhline(panel.reference, color=MUTED, linewidth=1, linestyle=(0, (1, 2)), zorder=1)
    axes.annotate(
        f"full model {panel.reference:.3g}",
        (panel.places[-1 if panel.axis.falls else 0], panel.reference),
        xytext=(0, -13 if panel.rises else 4),
        textcoords="offset points",
        color=MUTED,
    )
    for line in panel.lines:
        _draw_line(axes, line)
    axes.set_yticks(marks, [f"{mark:g}" for mark in marks])
    axes.set_ylim(marks[0], marks[-1] + 0.06 * (marks[-1] - marks[0]))
    _mark_sizes(axes, panel)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.set_title(panel.title, loc="left", fontsize=12, fontweight="bold", pad=12)
    _label_lines(axes, panel, marks)


def plot(curves: Sequence[Curve], path: str | Path) -> None:
    """Write a PNG of cosine and, where measured, nDCG against sparsity; the first curve is emphasised.

    Args:
        curves: Curves of one model on one task.
        path: The file to write; it ends in .png.

    Raises:
        InputError: There are no points, the curves don't belong together, or the path can't be written.
        MissingExtraError: matplotlib is not installed.
    """
    plot_panels(panels(curves), path)


def plot_panels(shown: Sequence[Panel], path: str | Path) -> None:
    """Write a PNG of some panels side by side.

    Args:
        shown: The panels, at least one.
        path: The file to write; it ends in .png.

    Raises:
        InputError: The path doesn't end in .png, or can't be written.
        MissingExtraError: matplotlib is not installed.
    """
    check_plot(path)
    from matplotlib import rc_context

    with rc_context(_STYLE):
        figure = _figure(5.6 * len(shown), 4.2)
        for axes, panel in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
            _draw_panel(axes, panel)
        _write_png(figure, path)


def _draw_kept(axes: "Axes", kept: Kept, kind: Kind) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    rows = kept.rows(kind)
    shares = [[width / site.units for width in widths] for site, widths in rows]
    axes.pcolormesh(
        shares,
        cmap=LinearSegmentedColormap.from_list("kept", [PAPER, COLORS[0]]),
        vmin=0,
        vmax=1,
        edgecolors=PAPER,
        linewidth=1.5,
    )
    for y, line in enumerate(shares):
        for x, share in enumerate(line):
            color = PAPER if share > 0.75 else INK
            axes.text(x + 0.5, y + 0.5, f"{100 * share:.0f}", ha="center", va="center", color=color, fontsize=8)
    axes.invert_yaxis()
    axes.set_yticks([y + 0.5 for y in range(len(rows))], [str(site.layer) for site, _ in rows])
    axes.set_xticks(
        [x + 0.5 for x in range(len(kept.sparsities))], [f"{round(100 * size, 1):g}" for size in kept.sparsities]
    )
    axes.spines[:].set_visible(False)
    axes.set_ylabel("layer")
    axes.set_xlabel(SPARSITY.label)
    axes.set_title(f"{kind} kept, in %".capitalize(), loc="left", fontsize=12, fontweight="bold", pad=10)


def kept_plot(kept: Kept, path: str | Path) -> None:
    """Write a PNG of what each size keeps of every layer: one heat map for neurons, one for heads.

    Args:
        kept: What each size keeps.
        path: The file to write; it ends in .png.

    Raises:
        InputError: The path doesn't end in .png, or can't be written.
        MissingExtraError: matplotlib is not installed.
    """
    check_plot(path)
    from matplotlib import rc_context

    tallest = max(len(kept.rows(kind)) for kind in kept.kinds)
    width = max(4.0, 1.2 + 0.5 * len(kept.sparsities))
    with rc_context(_STYLE):
        figure = _figure(width * len(kept.kinds), 1.4 + 0.3 * tallest)
        for axes, kind in zip(figure.subplots(1, len(kept.kinds), squeeze=False)[0], kept.kinds, strict=True):
            _draw_kept(axes, kept, kind)
        _write_png(figure, path)
