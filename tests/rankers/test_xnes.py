import pytest
import torch
from torch import Tensor

from pliant.rankers.xnes import minimise


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def bowl(point: Tensor) -> float:
    """Least at (1, 2, 3, 4), and four hundred times as steep along one direction as across it."""
    offset = point - torch.arange(1, 5, dtype=torch.float64)
    return (offset.square().sum() + 100 * offset.sum().square()).item()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_finds_the_bottom_of_a_narrow_bowl(seed: int) -> None:
    found = minimise(bowl, torch.zeros(4, dtype=torch.float64), 2000, drawn(seed), 1.0)
    torch.testing.assert_close(found, torch.arange(1, 5, dtype=torch.float64), atol=1e-3, rtol=0)


@pytest.mark.parametrize("evaluations", [0, 1, 2, 8, 9, 10, 50])
def test_evaluates_as_often_as_it_may_and_returns_the_best(evaluations: int) -> None:
    seen: list[tuple[float, Tensor]] = []

    def function(point: Tensor) -> float:
        seen.append((bowl(point), point.clone()))
        return seen[-1][0]

    start = torch.tensor([3.0, 1.0, 0.0, 2.0], dtype=torch.float64)
    found = minimise(function, start, evaluations, drawn(), 0.5)
    assert len(seen) == evaluations
    assert torch.equal(found, min(seen, key=lambda pair: pair[0])[1] if seen else start)
    assert not seen or torch.equal(seen[0][1], start)


def test_more_evaluations_go_on_with_the_same_points() -> None:
    seen: dict[int, list[Tensor]] = {}
    for evaluations in (20, 45):
        points = seen.setdefault(evaluations, [])
        minimise(lambda x, points=points: points.append(x) or bowl(x), torch.zeros(4).double(), evaluations, drawn(), 1)
    assert all(torch.equal(one, other) for one, other in zip(seen[20], seen[45], strict=False))


def test_the_first_step_by_hand() -> None:
    """One dimension, four points: utilities are those of the paper."""
    points: list[float] = []

    def function(point: Tensor) -> float:
        points.append(point.item())
        return point.item() ** 2

    minimise(function, torch.tensor([5.0], dtype=torch.float64), 9, drawn(3), 2.0)
    normal = torch.randn(8, generator=drawn(3), dtype=torch.float64)
    first, second = normal[:4], normal[4:]
    assert points[1:5] == pytest.approx((5 + 2 * first).tolist())
    weights = torch.tensor([3.0, 1.5, 1.0, 1.0], dtype=torch.float64).log()
    utilities = weights / weights.sum() - 0.25
    best_first = first[torch.argsort((5 + 2 * first).square())]
    growth = (utilities * best_first.square()).sum()
    centre = 5 + 2 * (utilities * best_first).sum()
    # η = (9 + 3 ln 1) / 5; in one dimension the shape has nothing left to change.
    sigma = 2 * torch.exp(1.8 / 2 * growth)
    assert points[5:] == pytest.approx((centre + sigma * second).tolist())


def test_the_order_of_the_values_is_all_that_counts() -> None:
    start = torch.zeros(4, dtype=torch.float64)
    plain = minimise(bowl, start, 60, drawn(), 1.0)
    assert torch.equal(plain, minimise(lambda point: bowl(point) ** 3 - 7, start, 60, drawn(), 1.0))
