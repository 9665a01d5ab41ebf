import json
from collections.abc import Callable
from typing import Any

import pytest
from evaluation.curves import timed

from pliant.errors import InputError
from pliant.evaluation.curve import CSV_COLUMNS, Curve, Latency, Point, rows
from pliant.evaluation.metric import Metric
from pliant.evaluation.runs import joined

MakeCurve = Callable[..., Curve]


@pytest.mark.parametrize("retrieval", [True, False])
@pytest.mark.parametrize("change", [lambda curve: curve, timed, lambda curve: joined([[curve], [timed(curve)]])[0]])
def test_json_round_trip(make_curve: MakeCurve, retrieval: bool, change: Callable[[Curve], Curve]) -> None:
    curve = change(make_curve(retrieval=retrieval))
    assert Curve.from_json(json.loads(json.dumps(curve.to_json(), allow_nan=False))) == curve


def test_the_shape_of_the_json(make_curve: MakeCurve) -> None:
    """Documented in docs/evaluating.md: what reads it must go on to work."""
    point = Point(0.5, 0.49, 20, 30, {"cosine": Metric(0.9, 0.8, 0.95), "f.hits": Metric(3.0)}, 2.5)
    latency = Latency(4.0, "cpu", 8, 10)
    found = Curve("m", "r", "t", (point,), 7, 40, 60, {"cosine": Metric(1.0, 1.0, 1.0)}, latency).to_json()
    assert found == {
        "format": 3,
        "model": "m",
        "ranker": "r",
        "task": "t",
        "tokens": 7,
        "full_parameters": 40,
        "full_macs": 60,
        "full": {"cosine": 1.0, "intervals": {"cosine": [1.0, 1.0]}},
        "latency": {"full_ms": 4.0, "machine": "cpu", "tokens": 8, "rounds": 10},
        "runs": 1,
        "points": [
            {
                "sparsity": 0.5,
                "achieved_sparsity": 0.49,
                "parameters": 20,
                "macs": 30,
                "latency_ms": 2.5,
                "cosine": 0.9,
                "f.hits": 3.0,
                "intervals": {"cosine": [0.8, 0.95]},
            }
        ],
    }


def test_json_of_another_version_is_refused(make_curve: MakeCurve) -> None:
    data = make_curve().to_json()
    point = data["points"][0]
    with pytest.raises(InputError, match=r"missing \['tokens'\]"):
        Curve.from_json({name: value for name, value in data.items() if name != "tokens"})
    with pytest.raises(InputError, match=r"missing \['intervals'\]"):
        Curve.from_json({**data, "points": [{name: point[name] for name in point if name != "intervals"}]})
    with pytest.raises(InputError, match=r"unknown \['full_ndcg'\]"):
        Curve.from_json({**data, "full_ndcg": 0.5})
    for other in (1, 4, None):
        with pytest.raises(InputError, match=f"format {other} can't be read"):
            Curve.from_json({**data, "format": other})
    for broken in (None, "fast", float("nan")):
        with pytest.raises(InputError, match=r"\['speed'\] have no number"):
            Curve.from_json({**data, "points": [{**point, "speed": broken}]})
    with pytest.raises(InputError, match=r"\['speed'\] have no number"):
        Curve.from_json({**data, "points": [{**point, "intervals": {"speed": [0, 1]}}]})


def test_format_2_is_still_read(make_curve: MakeCurve) -> None:
    curve = make_curve()
    old = {name: value for name, value in curve.to_json().items() if name not in ("latency", "runs")}
    assert Curve.from_json({**old, "format": 2}) == curve
    with pytest.raises(InputError, match=r"missing \['latency', 'runs'\]"):
        Curve.from_json(old)


@pytest.mark.parametrize("broken", [None, "fast", float("nan"), -1, True])
@pytest.mark.parametrize("place", [("points", 0, "macs"), ("points", 0, "latency_ms"), ("latency", "full_ms")])
def test_sizes_and_times_are_numbers(make_curve: MakeCurve, place: tuple[Any, ...], broken: Any) -> None:
    data = json.loads(json.dumps(timed(make_curve()).to_json()))
    part = data
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = broken
    with pytest.raises(InputError, match=place[-1]):
        Curve.from_json(data)


@pytest.mark.parametrize("data", [None, "curve", [1]])
def test_other_json_is_refused(make_curve: MakeCurve, data: Any) -> None:
    with pytest.raises(InputError, match="format None"):
        Curve.from_json(data)
    for part in ("full", "latency"):
        if data is not None:
            with pytest.raises(InputError, match="Not a saved"):
                Curve.from_json({**make_curve().to_json(), part: data})
    with pytest.raises(InputError, match="Not a saved point"):
        Curve.from_json({**make_curve().to_json(), "points": [data]})


def test_a_metric_cannot_hide_a_size() -> None:
    for name in ("sparsity", "macs", "intervals", "latency_ms"):
        with pytest.raises(InputError, match=f"can't be called '{name}'"):
            Point(0.5, 0.5, 1, 1, {name: Metric(1.0)})


def test_a_point_is_found_by_what_was_asked(make_curve: MakeCurve) -> None:
    curve = make_curve()
    assert curve.at(0.5) is curve.points[2]
    assert curve.at(0.4) is None


def test_rows_are_every_metric_of_every_size(make_curve: MakeCurve) -> None:
    curves = [make_curve(), make_curve("fisher")]
    found = [dict(zip(CSV_COLUMNS, row, strict=True)) for row in rows(curves)]
    assert len(found) == 2 * 4 * 4
    half = next(row for row in found if (row["ranker"], row["sparsity"], row["metric"]) == ("fisher", 0.5, "cosine"))
    metric = curves[1].points[2].metrics["cosine"]
    assert (half["value"], half["low"], half["high"]) == (metric.value, metric.low, metric.high)
    assert (half["parameters"], half["model"]) == (curves[1].points[2].parameters, "all-MiniLM-L6-v2")
