"""Curves that the fixture doesn't make."""

from dataclasses import replace

from pliant.evaluation.curve import Curve


def with_tokens(curve: Curve) -> Curve:
    """Give each point a cosine of its tokens: what is left of the model."""
    return replace(curve, points=tuple(replace(point, token_cosine=1 - point.sparsity) for point in curve.points))
