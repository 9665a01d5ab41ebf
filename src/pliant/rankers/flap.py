"""FLAP: how much a unit makes its consumer's output fluctuate, standardised at each site (An et al., 2024)."""

import torch
from torch import Tensor

from pliant.rankers.activations import variances
from pliant.rankers.calibration import Calibration


def scores(calibration: Calibration) -> Tensor:
    """Return each unit's weighted fluctuation, standardised at its site, `[units]`.

    Channel c of a consumer's input has the fluctuation Var(x_c) · ‖W_c‖², W_c being its column. That is standardised
    over the channels of a site, z_c = (f_c − mean f) / std f, and a unit has the mean z of its channels.

    The standard scores are the paper's own one scale for heads and neurons of all layers, without a cost, and the
    budget takes the top of that list, as there. Its bias compensation is the rest value that every ranker has.

    Raises:
        InputError: The model can't take a batch, or no batch has a valid token.

    Source:
        An, Zhao, Yu, Tang and Wang, "Fluctuation-based Adaptive Structured Pruning for Large Language Models",
        AAAI 2024; the metric WIFV with the structure AL-AM.
    """
    found = []
    for site, values in zip(calibration.anatomy.sites, variances(calibration), strict=True):
        columns = calibration.model.get_submodule(site.consumer).get_parameter("weight").double()
        fluctuation = values * columns.square().sum(dim=0)
        spread = fluctuation.std(correction=0).clamp(min=torch.finfo(torch.float64).tiny)
        found.append(((fluctuation - fluctuation.mean()) / spread).reshape(site.units, site.width).mean(dim=1))
    return torch.cat(found)
