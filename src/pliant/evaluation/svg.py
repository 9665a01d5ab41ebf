"""A panel as inline SVG whose colours come from the page, so that it follows a dark scheme."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from pliant.evaluation.panels import Line, Panel, shorten, spaced, spread, ticks

COLORS = 8
"""How many colours the page defines, as the CSS variables `--c0` to `--c7`."""

_WIDTH, _HEIGHT = 460.0, 300.0
_LEFT, _TOP, _BOTTOM = 36.0, 18.0, 46.0
_LABEL_GAP = 14.0
# A generous mean advance of a sans-serif letter, as no font can be measured here.
_LETTER = 7.2


@dataclass(frozen=True)
class _Frame:
    """Where a panel's values lie on the drawing."""

    x: Callable[[float], float]
    y: Callable[[float], float]
    right: float
    bottom: float
    marks: tuple[float, ...]


def _frame(panel: Panel) -> _Frame:
    right = _WIDTH - 14 - _LETTER * max(len(shorten(line.label)) for line in panel.lines)
    bottom = _HEIGHT - _BOTTOM
    marks = ticks(min(panel.values), max(panel.values))
    low, high = panel.places[0], panel.places[-1]
    first, last = (high, low) if panel.axis.falls else (low, high)
    # One size alone stands in the middle.
    width = (right - _LEFT - 14) / (last - first) if last != first else 0.0
    height = (bottom - _TOP) / (marks[-1] - marks[0])
    start = _LEFT + 10 if width else (_LEFT + right) / 2
    return _Frame(
        x=lambda value: start + width * (value - first),
        y=lambda value: bottom - height * (value - marks[0]),
        right=right,
        bottom=bottom,
        marks=tuple(marks),
    )


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _grid(frame: _Frame) -> list[str]:
    drawn: list[str] = []
    for mark in frame.marks:
        y = frame.y(mark)
        drawn.append(f'<path class="grid" d="M{_LEFT:.1f} {y:.1f}H{frame.right:.1f}"/>')
        drawn.append(_text(_LEFT - 7, y + 4, f"{mark:g}", "tick end"))
    return drawn


def _axis(panel: Panel, frame: _Frame) -> list[str]:
    marks = panel.marks[::-1] if panel.axis.falls else panel.marks
    places, texts = [frame.x(mark) for mark in marks], [panel.axis.tick(mark) for mark in marks]
    gap = max(24, _LETTER * max(map(len, texts)))
    shown = [_text(places[i], frame.bottom + 17, texts[i], "tick middle") for i in spaced(places, gap)]
    return [
        *shown,
        _text((_LEFT + frame.right) / 2, frame.bottom + 37, panel.axis.label, "tick middle"),
    ]


def _reference(panel: Panel, frame: _Frame) -> list[str]:
    y = frame.y(panel.reference)
    return [
        f'<path class="reference" d="M{_LEFT:.1f} {y:.1f}H{frame.right:.1f}"/>',
        _text(_LEFT + 2, y + 14 if panel.rises else y - 5, f"full model {panel.reference:.3g}", "tick"),
    ]


def _path(frame: _Frame, points: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{frame.x(x):.1f} {frame.y(y):.1f}" for x, y in points)


def _line(line: Line, panel: Panel, frame: _Frame) -> list[str]:
    color = f"--c: var(--c{line.color % COLORS})"
    drawn = [f'<g class="line {line.role}" style="{color}"><title>{escape(line.label)}</title>']
    if line.band:
        low, high = ([(x, y[edge]) for x, *y in line.band] for edge in (0, 1))
        drawn.append(f'<path class="band" d="M{_path(frame, high)}L{_path(frame, low[::-1])}Z"/>')
    drawn.append(f'<path class="stroke" d="M{_path(frame, line.points)}"/>')
    radius = 3.4 if line.role == "main" else 2
    for x, y in line.points:
        title = f"{line.label}, {panel.axis.place(x)}: {y:.4f}"
        circle = f'<circle cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="{radius}">'
        drawn.append(f"{circle}<title>{escape(title)}</title></circle>")
    return [*drawn, "</g>"]


def _labels(panel: Panel, frame: _Frame) -> list[str]:
    heights = spread([frame.y(line.points[-1][1]) for line in panel.lines], _LABEL_GAP, _TOP, frame.bottom)
    return [
        f'<g class="label {line.role}" style="--c: var(--c{line.color % COLORS})">'
        + _text(frame.right + 8, height + 4, shorten(line.label), "name")
        + "</g>"
        for line, height in zip(panel.lines, heights, strict=True)
    ]


def draw(panel: Panel) -> str:
    """Return `panel` as an `<svg>` element; its classes and colours are those of the report's page."""
    frame = _frame(panel)
    parts = [*_grid(frame), *_axis(panel, frame), *_reference(panel, frame)]
    for line in panel.lines:
        parts += _line(line, panel, frame)
    parts += _labels(panel, frame)
    name = f"{panel.title} by {panel.axis.choice}"
    opening = f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" aria-label="{escape(name)}">'
    return opening + "".join(parts) + "</svg>"
