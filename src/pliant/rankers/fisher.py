"""Mask-Fisher: the squared gradient of the output with respect to a unit's gate (Kwon et al., 2022)."""

import torch
from torch import Tensor

from pliant.rankers.calibration import Calibration
from pliant.rankers.gradients import gate_gradients


def scores(calibration: Calibration) -> Tensor:
    """Return the Fisher information of each unit's gate per parameter, `[units]`.

    F_u = Σ over batches of (∂ probe / ∂ m_u)². The probe weighs each input by random signs, so that squaring a
    batch's gradient gives the sum of its inputs' squared gradients on average.
    """
    information = torch.zeros_like(calibration.costs)
    for gradient in gate_gradients(calibration):
        information += gradient.square()
    return information / calibration.costs
