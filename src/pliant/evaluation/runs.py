"""Several measurements of one thing, such as rankings of several seeds, as one curve with their mean and range."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from pliant.errors import InputError
from pliant.evaluation.curve import Curve, Latency, Point
from pliant.evaluation.metric import Metric


def joined(measurements: Sequence[Sequence[Curve]]) -> list[Curve]:
    """Return the curves of several measurements, those of one ranker, model and task joined into one.

    A joined curve has the mean of every number, and for an interval the lowest and the highest value of the runs.

    Args:
        measurements: The curves of each measurement, in any order; within one of them nothing is joined.

    Raises:
        InputError: Curves of one ranker differ in their sizes or in what was measured.
    """
    groups: dict[tuple[str, str, str, int, int], list[Curve]] = {}
    for curves in measurements:
        names: list[str] = []
        for curve in curves:
            key = (curve.model, curve.ranker, curve.task, curve.tokens, names.count(curve.ranker))
            names.append(curve.ranker)
            groups.setdefault(key, []).append(curve)
    return [_joined(group) for group in groups.values()]


def _joined(curves: Sequence[Curve]) -> Curve:
    first = curves[0]
    if len(curves) == 1:
        return first
    _check_alike(curves)
    latency = _joined_latency([curve.latency for curve in curves])
    points = map(_joined_points, zip(*(curve.points for curve in curves), strict=True))
    return replace(
        first,
        points=tuple(point if latency else replace(point, latency_ms=None) for point in points),
        full=_joined_metrics([curve.full for curve in curves]),
        latency=latency,
        runs=sum(curve.runs for curve in curves),
    )


def _check_alike(curves: Sequence[Curve]) -> None:
    name = f"{curves[0].model}, ranked by {curves[0].ranker}"
    sizes = {tuple(point.sparsity for point in curve.points) for curve in curves}
    if len(sizes) > 1:
        raise InputError(f"Runs of {name}, have other sizes each: {sorted(sizes)}. Measure all at the same ones.")
    measured = {(curve.metrics, tuple(curve.full)) for curve in curves}
    if len(measured) > 1:
        raise InputError(f"Runs of {name}, measured other things each. Measure all on the same tasks.")
    if any(curve.runs > 1 for curve in curves):
        raise InputError(f"A run of {name}, is the mean of several already. Join the single runs.")
    wholes = {(curve.full_parameters, curve.full_macs) for curve in curves}
    if len(wholes) > 1:
        raise InputError(f"Runs of {name}, are of models of different sizes. Show each on its own.")


def _joined_points(points: Sequence[Point]) -> Point:
    times = [point.latency_ms for point in points if point.latency_ms is not None]
    return Point(
        sparsity=points[0].sparsity,
        achieved_sparsity=fmean(point.achieved_sparsity for point in points),
        parameters=round(fmean(point.parameters for point in points)),
        macs=round(fmean(point.macs for point in points)),
        metrics=_joined_metrics([point.metrics for point in points]),
        latency_ms=fmean(times) if len(times) == len(points) else None,
    )


def _joined_metrics(found: Sequence[Mapping[str, Metric]]) -> dict[str, Metric]:
    values = {name: [metrics[name].value for metrics in found] for name in found[0]}
    return {name: Metric(fmean(numbers), min(numbers), max(numbers)) for name, numbers in values.items()}


def _joined_latency(found: Sequence[Latency | None]) -> Latency | None:
    """Return the mean, where every run was timed; of times on different machines or inputs there is none."""
    known = [latency for latency in found if latency is not None]
    if len({(latency.machine, latency.tokens) for latency in known}) != 1 or len(known) < len(found):
        return None
    times, rounds = [latency.full_ms for latency in known], [latency.rounds for latency in known]
    return replace(known[0], full_ms=fmean(times), rounds=min(rounds))
