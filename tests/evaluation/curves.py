"""Curves, and what they can have besides."""

from collections.abc import Callable
from dataclasses import replace

from pliant.evaluation.curve import Curve, Latency, Point
from pliant.evaluation.metric import Metric


def plain(ranker: str = "soft-mask", rate: float = 1.0, retrieval: bool = True, **changes: object) -> Curve:
    """A curve whose quality falls at `rate`."""

    def metrics(sparsity: float) -> dict[str, Metric]:
        cosine, worst = 1 - 0.3141592 * rate * sparsity**2, 1 - 0.6543217 * rate * sparsity**2
        found = {"cosine": Metric(cosine, cosine - 0.004, cosine + 0.004), "worst_cosine": Metric(worst)}
        if retrieval:
            slim, both = 0.886 - 0.0567891 * rate * sparsity, 0.886 - 0.0876543 * rate * sparsity
            found["ndcg_slim_queries"] = Metric(slim, slim - 0.02, slim + 0.01)
            found["ndcg_both_slim"] = Metric(both)
        return found

    points = tuple(
        Point(
            sparsity=sparsity,
            achieved_sparsity=sparsity * 1.00123,
            parameters=round(22_713_216 - 10_632_960 * sparsity),
            macs=round(5.8e9 * (1 - sparsity / 2)),
            metrics=metrics(sparsity),
        )
        for sparsity in (0.0, 0.3, 0.5, 0.625)
    )
    fields = {
        "model": "all-MiniLM-L6-v2",
        "ranker": ranker,
        "task": "600 summaries",
        "points": points,
        "tokens": 256,
        "full_parameters": 22_713_216,
        "full_macs": 5_800_000_000,
        "full": metrics(0.0),
    }
    return Curve(**{**fields, **changes})


def with_metric(curve: Curve, name: str, value: Callable[[Point], float]) -> Curve:
    """Give each point one more metric."""
    points = (replace(point, metrics={**point.metrics, name: Metric(value(point))}) for point in curve.points)
    return replace(curve, points=tuple(points), full={**curve.full, name: Metric(1.0)})


def with_tokens(curve: Curve) -> Curve:
    """Give each point a cosine of its tokens: what is left of the model."""
    return with_metric(curve, "token_cosine", lambda point: 1 - point.sparsity)


def timed(curve: Curve, full_ms: float = 20.0) -> Curve:
    """Give each point a time: what is left of the full model's."""
    points = (replace(point, latency_ms=full_ms * (1 - point.sparsity) / 0.9) for point in curve.points)
    latency = Latency(full_ms, "A Processor (cpu, 2 threads), float32", 128, 200)
    return replace(curve, points=tuple(points), latency=latency)
