"""First-order Taylor: how much the loss changes when a unit goes (Molchanov et al., 2017)."""

import torch
from torch import Tensor

from pliant.rankers.calibration import Calibration
from pliant.rankers.gradients import gate_gradients


def scores(calibration: Calibration) -> Tensor:
    """Return the mean over batches of |∂ probe / ∂ m_u| per parameter, `[units]`.

    The absolute value is taken batch by batch: without labels the probe's sign is arbitrary, and would cancel.
    """
    change = torch.zeros_like(calibration.costs)
    for gradient in gate_gradients(calibration):
        change += gradient.abs()
    return change / calibration.costs
