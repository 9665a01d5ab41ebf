"""Curves that the fixture doesn't make."""

from collections.abc import Callable
from dataclasses import replace

from pliant.evaluation.curve import Curve, Point
from pliant.evaluation.metric import Metric


def with_metric(curve: Curve, name: str, value: Callable[[Point], float]) -> Curve:
    """Give each point one more metric."""
    points = (replace(point, metrics={**point.metrics, name: Metric(value(point))}) for point in curve.points)
    return replace(curve, points=tuple(points), full={**curve.full, name: Metric(1.0)})


def with_tokens(curve: Curve) -> Curve:
    """Give each point a cosine of its tokens: what is left of the model."""
    return with_metric(curve, "token_cosine", lambda point: 1 - point.sparsity)
