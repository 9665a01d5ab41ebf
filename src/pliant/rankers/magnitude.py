"""Magnitude: the size of a unit's own weights."""

import torch
from torch import Tensor, nn

from pliant.anatomy import Site
from pliant.rankers.calibration import Calibration


def scores(calibration: Calibration) -> Tensor:
    """Return ‖producer rows‖ · ‖consumer columns‖ per parameter, `[units]`."""
    sites = [_norms(calibration.model, site) / site.unit_parameters for site in calibration.anatomy.sites]
    return torch.cat(sites)


def _norms(model: nn.Module, site: Site) -> Tensor:
    columns = model.get_submodule(site.consumer).get_parameter("weight").double()
    squares = torch.zeros(site.units, dtype=torch.float64, device=columns.device)
    for producer in site.producers:
        weight = model.get_submodule(producer.module).get_parameter("weight")
        squares += weight.double().square().reshape(producer.parts, site.units, -1).sum(dim=(0, 2))
    return squares.sqrt() * columns.square().sum(dim=0).reshape(site.units, -1).sum(dim=1).sqrt()
