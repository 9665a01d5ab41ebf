"""The curve: what each size of an elastic model keeps, in any number of named metrics."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pliant.errors import InputError
from pliant.evaluation.metric import Metric

FORMAT = 3
"""Version of the JSON that `Curve.to_json` writes; 2, which is still read, had neither latencies nor runs."""

_SIZE = ("sparsity", "achieved_sparsity", "parameters", "macs")
_LATENCY = "latency_ms"
_INTERVALS = "intervals"
_READ = (2, FORMAT)
_NO_METRICS = {*_SIZE, _LATENCY, _INTERVALS}

CSV_COLUMNS = ("model", "ranker", "task", *_SIZE, "metric", "value", "low", "high", _LATENCY)
"""The columns of `rows`: one row for each metric of each size."""


@dataclass(frozen=True)
class Latency:
    """How the latencies of a curve were measured.

    Args:
        full_ms: The full model's own, in milliseconds.
        machine: What it ran on.
        tokens: Length of the inputs, which came one by one.
        rounds: How often each size was timed; a latency is the median.
    """

    full_ms: float
    machine: str
    tokens: int
    rounds: int

    def __post_init__(self) -> None:
        """Refuse times and counts that aren't positive numbers."""
        numbers = {"full_ms": self.full_ms, "tokens": self.tokens, "rounds": self.rounds}
        _check_numbers(numbers)


@dataclass(frozen=True)
class Point:
    """One size of a curve.

    Args:
        sparsity: What was asked for.
        achieved_sparsity: Removed fraction of the prunable parameters, after alignment.
        parameters: All parameters of the slim model.
        macs: Multiply-accumulates for one input of the curve's `tokens`.
        metrics: What was measured, by name.
        latency_ms: Median time for one input; None where it wasn't measured.

    Raises:
        InputError: A metric has the name of a size.
    """

    sparsity: float
    achieved_sparsity: float
    parameters: int
    macs: int
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    latency_ms: float | None = None

    def __post_init__(self) -> None:
        """Refuse names that would stand twice in the JSON."""
        if taken := sorted(_NO_METRICS & set(self.metrics)):
            raise InputError(f"A metric can't be called {taken[0]!r}: that is a part of every point. Rename it.")

    def value(self, metric: str) -> float | None:
        """Return a metric's value; None where it wasn't measured."""
        found = self.metrics.get(metric)
        return None if found is None else found.value

    def to_json(self) -> dict[str, Any]:
        """Return the point as a dictionary that JSON can hold: sizes and metrics side by side, intervals below."""
        latency = {} if self.latency_ms is None else {_LATENCY: self.latency_ms}
        return {**{name: getattr(self, name) for name in _SIZE}, **latency, **_metrics_to_json(self.metrics)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Point":
        """Return the point that `to_json` wrote.

        Raises:
            InputError: A part is missing, or is no number.
        """
        _check(data, {*_SIZE, _INTERVALS}, None, "point")
        measured = {name: value for name, value in data.items() if name not in (*_SIZE, _LATENCY)}
        _check_numbers({name: data[name] for name in (*_SIZE, _LATENCY) if name in data}, least=0)
        sizes = {name: data[name] for name in _SIZE}
        return cls(**sizes, metrics=_metrics_from_json(measured), latency_ms=data.get(_LATENCY))


@dataclass(frozen=True)
class Curve:
    """What each size of one model, ranked in one way, keeps.

    Args:
        model: The model's name.
        ranker: How its units were ranked.
        task: What it was measured on.
        points: The sizes, from the largest model to the smallest.
        tokens: Length of the input that MACs are given for.
        full_parameters: All parameters of the full model.
        full_macs: Multiply-accumulates of the full model for one input of `tokens`.
        full: The full model's own metrics, by name.
        latency: How the latencies were measured; None where they weren't.
        runs: How many measurements this is the mean of. Of several, an interval is from the lowest to the highest.
    """

    model: str
    ranker: str
    task: str
    points: tuple[Point, ...]
    tokens: int
    full_parameters: int
    full_macs: int
    full: Mapping[str, Metric] = field(default_factory=dict)
    latency: Latency | None = None
    runs: int = 1

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of all that was measured, in order."""
        return tuple(dict.fromkeys(name for point in self.points for name in point.metrics))

    def full_value(self, metric: str) -> float | None:
        """Return the full model's value of a metric; None where it wasn't measured."""
        found = self.full.get(metric)
        return None if found is None else found.value

    def at(self, sparsity: float) -> Point | None:
        """Return the point for which `sparsity` was asked, if there is one."""
        return next((point for point in self.points if point.sparsity == sparsity), None)

    def to_json(self) -> dict[str, Any]:
        """Return the curve as a dictionary that JSON can hold."""
        return {
            "format": FORMAT,
            "model": self.model,
            "ranker": self.ranker,
            "task": self.task,
            "tokens": self.tokens,
            "full_parameters": self.full_parameters,
            "full_macs": self.full_macs,
            "full": _metrics_to_json(self.full),
            "latency": None if self.latency is None else asdict(self.latency),
            "runs": self.runs,
            "points": [point.to_json() for point in self.points],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Curve":
        """Return the curve that `to_json` wrote.

        Raises:
            InputError: A part is missing, unknown or no number, or another version wrote it.
        """
        if not isinstance(data, Mapping) or data.get("format") not in _READ:
            found = data.get("format") if isinstance(data, Mapping) else None
            raise InputError(f"Curves of format {found} can't be read, only {FORMAT} and 2. Measure it again.")
        added = {"latency", "runs"} if data["format"] == FORMAT else set()
        plain = {"model", "ranker", "task", "tokens", "full_parameters", "full_macs"}
        names = {*plain, *added, "format", "full", "points"}
        _check(data, names, names, "curve")
        _check_numbers({name: data[name] for name in ("tokens", "full_parameters", "full_macs")})
        latency = data.get("latency")
        if latency is not None:
            parts = {"full_ms", "machine", "tokens", "rounds"}
            _check(latency, parts, parts, "latency")
        return cls(
            **{name: data[name] for name in plain},
            points=tuple(Point.from_json(point) for point in data["points"]),
            full=_metrics_from_json(data["full"]),
            latency=None if latency is None else Latency(**latency),
            runs=data.get("runs", 1),
        )


def rows(curves: Sequence[Curve]) -> Iterator[tuple[Any, ...]]:
    """Yield one row of `CSV_COLUMNS` for each metric of each size; an absent end of an interval is None."""
    for curve in curves:
        for point in curve.points:
            size = (curve.model, curve.ranker, curve.task, *(getattr(point, name) for name in _SIZE))
            for name, found in point.metrics.items():
                yield (*size, name, found.value, found.low, found.high, point.latency_ms)


def _metrics_to_json(metrics: Mapping[str, Metric]) -> dict[str, Any]:
    intervals = {name: [found.low, found.high] for name, found in metrics.items() if found.low is not None}
    return {**{name: found.value for name, found in metrics.items()}, _INTERVALS: intervals}


def _metrics_from_json(data: Mapping[str, Any]) -> dict[str, Metric]:
    _check(data, {_INTERVALS}, None, "point")
    values = {name: value for name, value in data.items() if name != _INTERVALS}
    intervals = data[_INTERVALS]
    broken = [name for name, value in values.items() if not isinstance(value, (int, float)) or not math.isfinite(value)]
    if broken or not set(intervals) <= set(values):
        raise InputError(
            f"Not a saved curve: {sorted({*broken, *set(intervals) - set(values)})} have no number. Measure it again."
        )
    return {name: Metric(value, *intervals.get(name, (None, None))) for name, value in values.items()}


def _check_numbers(values: Mapping[str, Any], least: float = 1e-9) -> None:
    """Refuse sizes that are no finite numbers from `least` on."""
    for name, value in values.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value < math.inf:
            raise InputError(f"Not a saved curve: {name} is {value!r:.40}, no number that it can be. Measure it again.")


def _check(data: Any, needed: set[str], known: set[str] | None, what: str) -> None:
    """Refuse a dictionary that lacks a part or, where all that may be in it is `known`, has another."""
    if not isinstance(data, Mapping):
        raise InputError(f"Not a saved {what}: {data!r:.40}. Measure it again with this version.")
    missing, unknown = sorted(needed - set(data)), sorted(set(data) - known) if known else []
    if missing or unknown:
        raise InputError(
            f"Not a saved {what}: missing {missing}, unknown {unknown}. Measure it again with this version."
        )
