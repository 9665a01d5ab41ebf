"""A measurement of speed as a table for the terminal, and as charts."""

from typing import TYPE_CHECKING

from pliant.evaluation.formatting import NO_VALUE, asked, percent, quantity
from pliant.evaluation.panels import Line, Panel
from pliant.machine import description
from pliant.speed import Size, Speed, Switching

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

_MACS_COLOR = 7

_COLUMNS = ("size", "p50 ms", "p99 ms", "items/s", "speed-up", "MACs", "share", "peak")


def speed_panels(speed: Speed) -> tuple[Panel, ...]:
    """Return two charts over sparsity: the speed-up at each batch size, and the time of the smallest batches."""
    return (_speedups(speed), _latency(speed))


def _speedups(speed: Speed) -> Panel:
    lines = [
        Line("ratio of MACs", "second", _MACS_COLOR, tuple((s.sparsity, speed.macs_ratio(s)) for s in speed.of("view")))
    ]
    color = len(speed.batch_sizes)
    for place, batch in reversed(list(enumerate(speed.batch_sizes))):
        for form in ("cut", "view"):
            sizes = speed.of(form)
            points = tuple((size.sparsity, speed.speedup(size, batch)) for size in sizes)
            name = f"batches of {batch}" if form == "view" else f"{batch}, cut"
            role = "main" if (form, place) == ("view", 0) else "other"
            if points:
                lines.append(Line(name, role, place if form == "view" else color + place, points))
    note = "How many times as fast as the untouched model, by the medians. Dashed: if time were arithmetic alone."
    return Panel("Speed-up", note, tuple(lines), 1.0)


def _latency(speed: Speed) -> Panel:
    batch, sizes = speed.batch_sizes[0], speed.of("view")
    timings = [size.timing(batch) for size in sizes]
    points = tuple((size.sparsity, timing.p50_ms) for size, timing in zip(sizes, timings, strict=True))
    band = tuple((size.sparsity, timing.p50_ms, timing.p99_ms) for size, timing in zip(sizes, timings, strict=True))
    note = f"Median time of a batch of {batch}, in milliseconds. The band reaches up to the 99th percentile."
    original = speed.original.timing(batch).p50_ms
    return Panel("Latency, ms", note, (Line("median", "main", 0, points, band),), original)


def speed_table(speed: Speed) -> "Group":
    """Return a Rich table for each batch size, with how it was measured and how fast sizes are changed."""
    from rich.console import Group
    from rich.text import Text

    tables = [_table(speed, batch) for batch in speed.batch_sizes]
    note = (
        "p50, p99: time of a batch. MACs: how many times fewer than the untouched model. share: the speed-up divided "
        "by that. peak: what activations take at most."
    )
    switching = [] if speed.switching is None else [Text(_switching(speed.switching))]
    return Group(Text(headline(speed)), *tables, Text(note), *switching)


def headline(speed: Speed) -> str:
    """Say what was measured, and on what, in one line."""
    sides = "" if speed.image_size is None else f", images of {' × '.join(map(str, speed.image_size))} pixels"
    where = description(speed.device_name, speed.device, speed.threads, speed.precision)
    return f"{speed.model}, ranked by {speed.ranker}, on {where}, inputs of {speed.tokens} tokens{sides}"


def _switching(found: Switching) -> str:
    return (
        f"Changing to a size used before takes {_milliseconds(found.cached_p50_ms)} ms "
        f"(p99 {_milliseconds(found.cached_p99_ms)}), to a new one {_milliseconds(found.built_p50_ms)} ms "
        f"(p99 {_milliseconds(found.built_p99_ms)}); {found.count} sizes drawn at random."
    )


def _milliseconds(value: float) -> str:
    """Return a time with three significant digits, without an exponent."""
    return f"{value:.4f}" if value < 0.1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _table(speed: Speed, batch: int) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rounds = speed.original.timing(batch).rounds
    title = Text(f"batches of {batch}, {rounds} turn{'s' if rounds > 1 else ''}")
    result = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 0, 0, 1))
    for number, column in enumerate(_COLUMNS):
        result.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    for size in speed.sizes:
        result.add_row(*_cells(speed, size, batch))
    return result


def _cells(speed: Speed, size: Size, batch: int) -> tuple[str, ...]:
    timing, ratio = size.timing(batch), speed.macs_ratio(size)
    times = (_milliseconds(timing.p50_ms), _milliseconds(timing.p99_ms), _milliseconds(timing.items_per_second))
    peak = NO_VALUE if timing.peak_bytes is None else f"{quantity(timing.peak_bytes)}B"
    if size.form == "original":
        return ("untouched", *times, "", "", "", peak)
    speedup = speed.speedup(size, batch)
    return (
        f"{size.form} {asked(size.sparsity)}",
        *times,
        f"{speedup:.2f}×",
        f"{ratio:.2f}×",
        percent(speedup / ratio),
        peak,
    )
