"""LAMP: a unit's share of the squared magnitudes that are left at its site (Lee et al., 2021)."""

import torch
from torch import Tensor

from pliant.rankers.calibration import Calibration
from pliant.rankers.magnitude import norms


def scores(calibration: Calibration) -> Tensor:
    """Return m_u² / Σ m_v² over the units v of u's site with m_v ≥ m_u, `[units]`.

    m is `magnitude`'s, ‖producer rows‖ · ‖consumer columns‖: a unit stands where the paper has a single weight, and a
    site where it has a layer. The paper ranks all layers by this score on one scale, without a cost, as is done here:
    each site's order is that of its magnitudes, and only the balance of the sites differs. Divided by the parameters
    of the units, the score was a little worse on a sentence encoder, as it was from the squared weights alone.

    Source:
        Lee, Park, Mo, Ahn and Shin, "Layer-adaptive Sparsity for the Magnitude-based Pruning", ICLR 2021.
    """
    sites = calibration.anatomy.sites
    return torch.cat([shares(norms(calibration.model, site).square()) for site in sites])


def shares(values: Tensor) -> Tensor:
    """Return each value over the sum of itself and of all that are larger; of equal ones, the first is left longest."""
    ascending, order = torch.sort(values.flip(0), stable=True)
    left = ascending.flip(0).cumsum(dim=0).flip(0)
    found = torch.zeros_like(values)
    found[len(values) - 1 - order] = ascending / left.clamp(min=torch.finfo(values.dtype).tiny)
    return found
