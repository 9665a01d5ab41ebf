"""Masks that keep a given share of the cost: soft ones to learn with, hard ones to judge with."""

from typing import Any

import torch
from torch import Tensor

_BISECTIONS = 60


class _SoftTopK(torch.autograd.Function):
    """σ((s − τ)/T) with the τ that keeps the wanted cost, differentiated through τ implicitly."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, costs: Tensor, sparsity: float, temperature: float) -> Tensor:
        threshold = _threshold(scores, costs, sparsity, temperature)
        masks = torch.sigmoid((scores.double() - threshold) / temperature)
        ctx.save_for_backward(masks, costs)
        ctx.temperature = temperature
        return masks.to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        masks, costs = ctx.saved_tensors
        slopes = masks * (1 - masks) / ctx.temperature
        weights = costs.double() * slopes
        shares = weights / weights.sum().clamp(min=torch.finfo(torch.float64).tiny)
        gradient = gradients[0].double() * slopes
        return (gradient - shares * gradient.sum()).to(gradients[0].dtype), None, None, None


def _threshold(scores: Tensor, costs: Tensor, sparsity: float, temperature: float) -> Tensor:
    values, weights = scores.double(), costs.double()
    wanted = (1 - sparsity) * weights.sum()
    low, high = values.min() - 40 * temperature, values.max() + 40 * temperature
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        kept = (weights * torch.sigmoid((values - middle) / temperature)).sum()
        low, high = torch.where(kept > wanted, middle, low), torch.where(kept > wanted, high, middle)
    return (low + high) / 2


def soft_topk(scores: Tensor, costs: Tensor, sparsity: float, temperature: float) -> Tensor:
    """Return masks m_u = σ((s_u − τ)/T) with τ such that Σ c_u m_u = (1 − sparsity) Σ c_u.

    The gradient goes through τ: ∂τ/∂s_u = w_u / Σ w with w_u = c_u m_u (1 − m_u), so that no step changes the budget.

    Args:
        scores: `[units]`.
        costs: Positive cost of each unit `[units]`.
        sparsity: Share of the cost to remove, in [0, 1).
        temperature: T, in units of the scores; small ones give nearly binary masks.

    Returns:
        Masks in (0, 1), `[units]`.
    """
    masks = _SoftTopK.apply(scores, costs, sparsity, temperature)
    assert isinstance(masks, Tensor)
    return masks


def hard_topk(scores: Tensor, costs: Tensor, sparsity: float) -> Tensor:
    """Return masks of zeros and ones: the best units whose cost together is at most (1 − sparsity) of all.

    Ties break by index.
    """
    order = torch.argsort(scores, descending=True, stable=True)
    running = torch.cumsum(costs[order].double(), dim=0)
    masks = torch.zeros_like(scores)
    masks[order] = (running <= (1 - sparsity) * running[-1]).to(scores.dtype)
    return masks
