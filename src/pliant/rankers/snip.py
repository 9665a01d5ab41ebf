"""SNIP-magnitude: how sensitive the output is to a unit's weights, and how large they are (Kohama et al., 2023)."""

import torch
from torch import Tensor

from pliant.rankers.calibration import Calibration
from pliant.rankers.gradients import weight_gradients
from pliant.rankers.magnitude import squared_weights

_SHARE = 0.3
"""What magnitude counts beside sensitivity, each taken as a share of the whole model's."""


def scores(calibration: Calibration) -> Tensor:
    """Return (Σ |g w| / G + α Σ w² / M) per parameter, the sums over all weights that leave with a unit, `[units]`.

    g is the gradient of a batch's probe with respect to the weight w, and |g w| is averaged over batches: without
    labels the probe's sign is arbitrary, and would cancel. G and M are the same sums over all units. The paper has
    |g w| + α w² with an α for its own loss; what a probe's gradients are measured in is arbitrary, so both terms are
    taken as shares, with α = 0.3. A unit's producer rows and consumer columns both count: by rows alone the list loses
    units of large activations, and a sentence encoder falls apart.

    Source:
        Lee, Ajanthan and Torr, "SNIP: Single-shot Network Pruning based on Connection Sensitivity", ICLR 2019, with
        the magnitude term of Kohama, Minoura, Hirakawa, Yamashita and Fujiyoshi, "Single-Shot Pruning for Pre-trained
        Models: Rethinking the Importance of Magnitude Pruning", 2023.
    """
    sensitivity, squares = torch.zeros_like(calibration.costs), torch.zeros_like(calibration.costs)
    for sums in weight_gradients(calibration, lambda weight, gradient: (weight * gradient).abs(), salt=5):
        sensitivity += sums
    for site, units in calibration.anatomy.slices():
        squares[units] = squared_weights(calibration.model, site)
    return (_shares(sensitivity) + _SHARE * _shares(squares)) / calibration.costs


def _shares(sums: Tensor) -> Tensor:
    return sums / sums.sum().clamp(min=torch.finfo(sums.dtype).tiny)
