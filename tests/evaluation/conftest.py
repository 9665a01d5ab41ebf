from collections.abc import Callable

import pytest

from pliant.anatomy import Anatomy, Producer, Site
from pliant.budget import Cut
from pliant.evaluation.curve import Curve, Point
from pliant.evaluation.kept import Kept
from pliant.evaluation.metric import Metric

MakeCurve = Callable[..., Curve]


@pytest.fixture
def make_curve() -> MakeCurve:
    """Makes a curve whose quality falls at `rate`."""

    def make(ranker: str = "soft-mask", rate: float = 1.0, retrieval: bool = True, **changes: object) -> Curve:
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

    return make


@pytest.fixture
def anatomy() -> Anatomy:
    """Two layers of two heads and eight neurons."""
    sites: list[Site] = []
    for layer in range(2):
        heads = tuple(Producer(f"layer.{layer}.{name}", 4, 8, True) for name in ("q", "k", "v"))
        sites.append(Site(f"layer.{layer}.attention", "heads", layer, 2, 4, f"layer.{layer}.o", 8, heads))
        neurons = (Producer(f"layer.{layer}.up", 1, 8, True),)
        sites.append(Site(f"layer.{layer}.mlp", "neurons", layer, 8, 1, f"layer.{layer}.down", 8, neurons))
    return Anatomy("tiny", tuple(sites), "mean", 2000, 16)


class HalvingPlanner:
    """Keeps units in proportion, at least one a site."""

    def __init__(self, anatomy: Anatomy) -> None:
        self.anatomy = anatomy

    def plan(self, *, sparsity: float) -> Cut:
        return Cut(tuple(max(1, int(site.units * (1 - sparsity))) for site in self.anatomy.sites))


@pytest.fixture
def kept(anatomy: Anatomy) -> Kept:
    return Kept.of(HalvingPlanner(anatomy), [0.75, 0.0, 0.25, 0.25])
