from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pliant.evaluation.curve import Curve, Point
from pliant.evaluation.knee import knee
from pliant.evaluation.metric import Metric
from pliant.evaluation.report import write_report


def curve_of(values: dict[float, float], metric: str = "cosine", full: float = 1.0) -> Curve:
    points = tuple(Point(sparsity, sparsity, 100, 100, {metric: Metric(value)}) for sparsity, value in values.items())
    return Curve("m", "r", "t", points, 8, 200, 200, {metric: Metric(full)})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # Flat, then falling: the last flat one.
        ({0.2: 0.99, 0.4: 0.98, 0.6: 0.97, 0.8: 0.5}, 0.6),
        ({0.2: 0.98, 0.4: 0.9, 0.6: 0.7, 0.8: 0.4}, 0.4),
        # A straight line has none, nor what falls at once and then stays.
        ({0.2: 0.9, 0.4: 0.8, 0.6: 0.7, 0.8: 0.6}, None),
        ({0.2: 0.6, 0.4: 0.55, 0.6: 0.52, 0.8: 0.5}, None),
        ({0.2: 0.9, 0.4: 0.8}, None),
        ({0.2: 1.0, 0.4: 1.0, 0.6: 1.0}, None),
        ({0.0: 1.0, 0.4: 0.98, 0.8: 0.5}, 0.4),
    ],
)
def test_where_a_curve_bends(values: dict[float, float], expected: float | None) -> None:
    found = knee(curve_of(values))
    assert (found and found.sparsity) == expected


def test_other_metrics_fall_from_the_full_models_own() -> None:
    curve = curve_of({0.2: 0.6, 0.4: 0.58, 0.6: 0.3}, "accuracy", full=0.6)
    found = knee(curve, "accuracy")
    assert found is not None and found.sparsity == 0.4
    assert knee(curve) is None
    assert knee(replace(curve, full={}), "accuracy") is None


def moved(curve: Curve, change: Callable[[float], float]) -> Curve:
    points = (
        replace(point, metrics={name: Metric(change(found.value)) for name, found in point.metrics.items()})
        for point in curve.points
    )
    return replace(curve, points=tuple(points))


def test_scaling_what_is_lost_moves_no_knee() -> None:
    curve = curve_of({0.2: 0.98, 0.4: 0.95, 0.6: 0.7, 0.8: 0.4})
    assert knee(moved(curve, lambda value: 1 - (1 - value) / 2)).sparsity == knee(curve).sparsity  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({0.2: 0.99, 0.4: 0.98, 0.6: 0.5}, '<data value="0.4">40\xa0%</data>'),
        ({0.2: 0.9, 0.4: 0.8, 0.6: 0.7}, "No size stands out"),
    ],
)
def test_the_report_says_it(values: dict[float, float], said: str, tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", [curve_of(values)], None, {})
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert said in text.partition("Quality against size")[2].partition("</section>")[0]
