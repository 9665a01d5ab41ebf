"""Variance-based pruning: a unit whose activation hardly varies can be its mean (Berisha et al., 2025)."""

import torch
from torch import Tensor

from pliant.rankers.activations import variances
from pliant.rankers.calibration import Calibration


def scores(calibration: Calibration) -> Tensor:
    """Return Var(x_u), the variance of each unit's activation over all valid tokens, `[units]`.

    The paper ranks the MLP neurons of all layers by it on one scale and leaves the heads alone. Here a head stands in
    the same list by the mean variance of its channels; on a sentence encoder that was better than their sum, than
    either per parameter, and by far better than to keep all heads. Its mean shift is the rest value that every ranker
    has. What reads a unit does not count.

    Raises:
        InputError: The model can't take a batch, or no batch has a valid token.

    Source:
        Berisha, Mehnert and Condurache, "Variance-Based Pruning for Accelerating and Compressing Trained Networks",
        ICCV 2025.
    """
    found = [
        values.reshape(site.units, site.width).mean(dim=1)
        for site, values in zip(calibration.anatomy.sites, variances(calibration), strict=True)
    ]
    return torch.cat(found)
