import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pliant.rankers.soft_topk import hard_topk, soft_topk

Case = tuple[Tensor, Tensor]


@st.composite
def cases(draw: st.DrawFn, units: int = 40, dtype: torch.dtype = torch.float32) -> Case:
    """Scores, with ties or without, on any scale, and costs that differ by orders of magnitude."""
    count = draw(st.integers(2, units))
    scale = draw(st.sampled_from([1e-3, 1.0, 1e3]))
    score = draw(st.sampled_from([st.sampled_from([-1.0, 0.0, 2.0]), st.floats(-3, 3, width=32)]))
    scores = draw(st.lists(score, min_size=count, max_size=count))
    costs = draw(st.lists(st.integers(1, 100_000), min_size=count, max_size=count))
    return torch.tensor(scores, dtype=dtype) * scale, torch.tensor(costs, dtype=torch.float64)


sparsities = st.floats(0.001, 0.98)
temperatures = st.floats(1e-3, 1e2)


@given(cases(dtype=torch.float64), sparsities, temperatures)
def test_the_budget_holds(case: Case, sparsity: float, temperature: float) -> None:
    scores, costs = case
    masks = soft_topk(scores, costs, sparsity, temperature)
    wanted = (1 - sparsity) * costs.sum()
    assert float((costs * masks).sum()) == pytest.approx(float(wanted), rel=1e-4)
    assert bool(((masks >= 0) & (masks <= 1)).all())


@given(cases(), sparsities, st.floats(0.05, 1.0))
def test_the_budget_holds_in_single_precision(case: Case, sparsity: float, temperature: float) -> None:
    scores, costs = case
    masks = soft_topk(scores, costs, sparsity, temperature)
    assert masks.dtype == torch.float32
    assert float((costs * masks).sum()) == pytest.approx(float((1 - sparsity) * costs.sum()), rel=1e-4)


@given(cases(), sparsities, temperatures)
def test_better_scores_have_larger_masks(case: Case, sparsity: float, temperature: float) -> None:
    scores, costs = case
    order = torch.argsort(scores)
    assert bool((soft_topk(scores, costs, sparsity, temperature)[order].diff() >= 0).all())


@given(cases(), st.floats(-5, 5), sparsities)
def test_only_differences_count(case: Case, shift: float, sparsity: float) -> None:
    scores, costs = case[0].double(), case[1]
    one, other = soft_topk(scores, costs, sparsity, 0.5), soft_topk(scores + shift, costs, sparsity, 0.5)
    torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


@given(cases(units=6, dtype=torch.float64), st.floats(0.05, 0.95), st.floats(0.3, 3))
def test_the_gradient_is_that_of_finite_differences(case: Case, sparsity: float, temperature: float) -> None:
    scores, costs = case[0].clamp(-5, 5).requires_grad_(), case[1]
    assert torch.autograd.gradcheck(
        lambda values: soft_topk(values, costs, sparsity, temperature), (scores,), eps=1e-6, atol=1e-5, rtol=1e-3
    )


@given(cases(dtype=torch.float64), st.floats(0.05, 0.95), st.floats(0.1, 3))
def test_no_gradient_changes_the_budget(case: Case, sparsity: float, temperature: float) -> None:
    """Σ_u c_u ∂m_u/∂s_v = 0 for every v, and what is left is no zero matrix."""
    scores, costs = case[0].clamp(-3, 3), case[1]
    jacobian = torch.autograd.functional.jacobian(lambda s: soft_topk(s, costs, sparsity, temperature), scores)
    assert isinstance(jacobian, Tensor)
    # Each column is a sum of terms of opposite sign: compared with their size, and with the rounding of a mask.
    terms = costs.unsqueeze(1) * jacobian
    rounding = 1e-12 + 1e-15 * costs.max()
    assert bool((terms.sum(dim=0).abs() <= 1e-9 * terms.abs().sum(dim=0) + rounding).all())
    # A shift of all scores changes nothing either.
    assert bool((jacobian.sum(dim=1).abs() <= 1e-9 * jacobian.abs().sum(dim=1) + 1e-12).all())


def test_a_gradient_by_hand() -> None:
    """Two equal units: raising one by ds raises its mask by ds·m(1−m)/2T, and lowers the other's by as much."""
    scores = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    soft_topk(scores, torch.ones(2, dtype=torch.float64), 0.5, 1.0)[0].backward()
    assert scores.grad is not None
    assert scores.grad.tolist() == pytest.approx([0.125, -0.125], abs=1e-12)


def test_cold_masks_are_hard_ones() -> None:
    scores, costs = torch.tensor([0.3, 0.9, 0.1, 0.5]), torch.ones(4, dtype=torch.float64)
    soft = soft_topk(scores, costs, 0.5, 1e-3)
    torch.testing.assert_close(soft, hard_topk(scores, costs, 0.5), atol=1e-6, rtol=0)
    assert hard_topk(scores, costs, 0.5).tolist() == [0, 1, 0, 1]


@given(cases(), st.floats(0, 0.999))
def test_hard_masks_keep_the_most_that_fits(case: Case, sparsity: float) -> None:
    scores, costs = case
    masks = hard_topk(scores, costs, sparsity)
    allowed = (1 - sparsity) * float(costs.sum())
    assert set(masks.tolist()) <= {0.0, 1.0}
    assert float((costs * masks).sum()) <= allowed
    order = sorted(range(len(scores)), key=lambda unit: (-float(scores[unit]), unit))
    kept = int(masks.sum())
    assert [unit for unit in order if masks[unit]] == order[:kept]
    if kept < len(order):
        assert float((costs * masks).sum() + costs[order[kept]]) > allowed


def test_ties_break_by_index() -> None:
    assert hard_topk(torch.zeros(4), torch.ones(4), 0.5).tolist() == [1, 1, 0, 0]


def test_nothing_to_remove() -> None:
    assert hard_topk(torch.randn(50), torch.rand(50).double(), 0.0).tolist() == [1.0] * 50
