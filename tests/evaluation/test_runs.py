from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import pytest
from evaluation.curves import timed, with_tokens

from pliant.errors import InputError
from pliant.evaluation.axes import axes
from pliant.evaluation.curve import Curve
from pliant.evaluation.panels import panels
from pliant.evaluation.runs import joined

MakeCurve = Callable[..., Curve]


def test_every_number_is_the_mean_between_the_lowest_and_the_highest(make_curve: MakeCurve) -> None:
    runs = [make_curve(rate=rate) for rate in (1.0, 3.0, 2.5)]
    (mean,) = joined([[run] for run in runs])
    assert (mean.runs, mean.model, mean.ranker, mean.tokens) == (3, runs[0].model, "soft-mask", 256)
    for place, point in enumerate(mean.points):
        assert point.parameters == runs[0].points[place].parameters
        for name, metric in point.metrics.items():
            values = [run.points[place].metrics[name].value for run in runs]
            assert (metric.value, metric.low, metric.high) == (fmean(values), min(values), max(values))
    assert mean.full["ndcg_slim_queries"].value == pytest.approx(0.886)


def test_rankers_are_joined_each_by_itself(make_curve: MakeCurve) -> None:
    files = [[make_curve(rate=rate), make_curve("fisher", 2 * rate)] for rate in (1.0, 1.2)]
    found = joined(files)
    assert [(curve.ranker, curve.runs) for curve in found] == [("soft-mask", 2), ("fisher", 2)]
    assert joined([files[0]]) == files[0]


def test_nothing_within_one_measurement_is_joined(make_curve: MakeCurve) -> None:
    twins = [make_curve("fisher"), make_curve("fisher", 2.0)]
    assert joined([twins]) == twins
    assert [curve.runs for curve in joined([twins, twins])] == [2, 2]


def test_other_models_and_tasks_stay_apart(make_curve: MakeCurve) -> None:
    curves = [make_curve(), make_curve(model="another"), make_curve(task="another"), make_curve(tokens=7)]
    assert joined([[curve] for curve in curves]) == curves


def test_times_have_a_mean_where_they_belong_together(make_curve: MakeCurve) -> None:
    one, other = timed(make_curve()), timed(make_curve(), full_ms=30.0)
    (mean,) = joined([[one], [other]])
    assert mean.latency is not None and mean.latency.full_ms == 25
    assert mean.points[2].latency_ms == pytest.approx(25 * 0.5 / 0.9)
    assert one.latency is not None
    elsewhere = replace(other, latency=replace(one.latency, machine="another"))
    for second in (elsewhere, make_curve()):
        (mean,) = joined([[one], [second]])
        assert mean.latency is None and all(point.latency_ms is None for point in mean.points)


def test_runs_that_differ_are_refused(make_curve: MakeCurve) -> None:
    curve = make_curve()
    pairs = {
        "have other sizes each": replace(curve, points=curve.points[1:]),
        "measured other things each": with_tokens(curve),
        "mean of several already": replace(curve, runs=2),
        "models of different sizes": replace(curve, full_macs=7),
    }
    for named, other in pairs.items():
        with pytest.raises(InputError, match=named):
            joined([[curve], [other]])


def test_bands_are_those_of_the_runs(make_curve: MakeCurve) -> None:
    files = [[make_curve(rate=rate), make_curve("fisher", 2 * rate)] for rate in (1.0, 1.2)]
    curves = joined(files)
    for axis in axes(curves):
        for panel in panels(curves, axis):
            assert "Mean of 2 runs" in panel.note
            others, main = panel.lines[0], panel.lines[-1]
            for line, curve in ((others, curves[1]), (main, curves[0])):
                metric = "cosine" if panel.title == "Fidelity" else "ndcg_slim_queries"
                found = [(axis.of(point), point.metrics[metric]) for point in curve.points]
                assert line.band == tuple((place, measured.low, measured.high) for place, measured in found)
    assert "worst one in twenty" not in panels(curves)[0].note
