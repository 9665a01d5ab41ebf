"""Mask search and rearrangement: Fisher information of units together, not one by one (Kwon et al., 2022)."""

import torch
from torch import Tensor

from pliant.rankers.calibration import Calibration
from pliant.rankers.elimination import eliminated, reordered
from pliant.rankers.gradients import gate_gradients

_BATCHES = 96
_TOGETHER = 0.5
"""How much of the information between two units is believed: it is estimated from far fewer batches than units."""


def scores(calibration: Calibration) -> Tensor:
    """Return the Fisher information per parameter, given out anew within each site, `[units]`.

    With g_nu the gradient of batch n's probe with respect to the gate of unit u, F_uv = Σ_n g_nu g_nv.

    1. Mask search: by the diagonal F_uu alone, a budget is best met by the units of the most information per
       parameter, but for one unit at the edge. So one list of F_uu / c_u says how many units each site keeps at every
       budget, which the paper works out for one.
    2. Rearrangement: which units of a site these are then follows from its whole block of F. The paper exchanges
       units within the masks of one budget; here units leave one after the other, each time the one that adds least
       to Σ F_uv over those that are gone, so that the masks of all budgets are nested. The n-th of them gets the n-th
       lowest score of its site.

    Off the diagonal, half of F counts: with all of it, sums over few batches cancel by chance, and a sentence encoder
    is a little worse than without rearrangement. The paper's third step, which tunes the masks' values, is
    compensation, and rest values stand for that.

    Raises:
        InputError: The objective has no gradient, or one that is not finite.

    Source:
        Kwon, Kim, Mahoney, Hassoun, Keutzer and Gholami, "A Fast Post-Training Pruning Framework for Transformers",
        NeurIPS 2022.
    """
    gradients = torch.stack([gradient.float() for gradient in gate_gradients(calibration, _BATCHES)])
    found = gradients.square().sum(dim=0, dtype=torch.float64) / calibration.costs
    for _, units in calibration.anatomy.slices():
        found[units] = reordered(found[units], eliminated(_block(gradients[:, units])))
    return found


def _block(gradients: Tensor) -> Tensor:
    """Return one site's block of F, what is off its diagonal halved, from gradients `[batches, units]`."""
    block = _TOGETHER * gradients.T @ gradients
    block.diagonal().div_(_TOGETHER)
    return block
