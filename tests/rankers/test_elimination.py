import pytest
import torch

from pliant.rankers.elimination import eliminated, reordered


def form_of(units: int, seed: int = 0) -> torch.Tensor:
    factors = torch.randn(5, units, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return factors.T @ factors


@pytest.mark.parametrize("seed", range(4))
def test_each_step_adds_least(seed: int) -> None:
    form = form_of(9, seed)
    order = eliminated(form).tolist()
    assert sorted(order) == list(range(9))
    for step, unit in enumerate(order):
        gone = order[:step]
        losses = {one: form[[*gone, one]][:, [*gone, one]].sum().item() for one in range(9) if one not in gone}
        assert losses[unit] == pytest.approx(min(losses.values()), abs=1e-9)


def test_of_independent_units_the_smallest_go_first() -> None:
    assert eliminated(torch.diag(torch.tensor([3.0, 1.0, 2.0]))).tolist() == [1, 2, 0]


def test_units_that_cancel_leave_together() -> None:
    """Once the first is gone, nothing is lost with the third either."""
    vectors = torch.tensor([[3.0, 0.0], [0.0, 3.5], [-3.0, 0.1]])
    assert eliminated(vectors @ vectors.T).tolist() == [0, 2, 1]


def test_ties_break_by_index() -> None:
    assert eliminated(torch.eye(4)).tolist() == [3, 2, 1, 0]


def test_scores_are_given_out_anew() -> None:
    found = reordered(torch.tensor([5.0, 7.0, 6.0]), torch.tensor([2, 0, 1]))
    assert found.tolist() == [6.0, 7.0, 5.0]
