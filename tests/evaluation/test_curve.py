import json
from collections.abc import Callable

import pytest

from pliant.errors import InputError
from pliant.evaluation.curve import CSV_COLUMNS, Curve, Point, rows
from pliant.evaluation.metric import Metric

MakeCurve = Callable[..., Curve]


@pytest.mark.parametrize("retrieval", [True, False])
def test_json_round_trip(make_curve: MakeCurve, retrieval: bool) -> None:
    curve = make_curve(retrieval=retrieval)
    assert Curve.from_json(json.loads(json.dumps(curve.to_json(), allow_nan=False))) == curve


def test_the_shape_of_the_json(make_curve: MakeCurve) -> None:
    """Documented in docs/evaluating.md: what reads it must go on to work."""
    point = Point(0.5, 0.49, 20, 30, {"cosine": Metric(0.9, 0.8, 0.95), "f.hits": Metric(3.0)})
    found = Curve("m", "r", "t", (point,), 7, 40, 60, {"cosine": Metric(1.0, 1.0, 1.0)}).to_json()
    assert found == {
        "format": 2,
        "model": "m",
        "ranker": "r",
        "task": "t",
        "tokens": 7,
        "full_parameters": 40,
        "full_macs": 60,
        "full": {"cosine": 1.0, "intervals": {"cosine": [1.0, 1.0]}},
        "points": [
            {
                "sparsity": 0.5,
                "achieved_sparsity": 0.49,
                "parameters": 20,
                "macs": 30,
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
    with pytest.raises(InputError, match="format 3"):
        Curve.from_json({**data, "format": 3})
    for broken in (None, "fast", float("nan")):
        with pytest.raises(InputError, match=r"\['speed'\] have no number"):
            Curve.from_json({**data, "points": [{**point, "speed": broken}]})
    with pytest.raises(InputError, match=r"\['speed'\] have no number"):
        Curve.from_json({**data, "points": [{**point, "intervals": {"speed": [0, 1]}}]})


def test_a_metric_cannot_hide_a_size() -> None:
    for name in ("sparsity", "macs", "intervals"):
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
