from collections.abc import Callable

import pytest
from evaluation.curves import plain

from pliant.anatomy import Anatomy, Producer, Site
from pliant.budget import Cut
from pliant.evaluation.curve import Curve
from pliant.evaluation.kept import Kept

MakeCurve = Callable[..., Curve]


@pytest.fixture
def make_curve() -> MakeCurve:
    """Makes a curve whose quality falls at a given rate."""
    return plain


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
