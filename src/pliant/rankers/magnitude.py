"""Magnitude: the size of a unit's own weights."""

import torch
from torch import Tensor, nn

from pliant.anatomy import Site
from pliant.batches import device_of
from pliant.rankers.calibration import Calibration


def scores(calibration: Calibration) -> Tensor:
    """Return ‖producer rows‖ · ‖consumer columns‖ per parameter, `[units]`."""
    sites = [norms(calibration.model, site) / site.unit_parameters for site in calibration.anatomy.sites]
    return torch.cat(sites)


def norms(model: nn.Module, site: Site) -> Tensor:
    """Return ‖producer rows‖ · ‖consumer columns‖ of each unit of one site, float64 `[units]`."""
    return _squared_rows(model, site).sqrt() * _squared_columns(model, site).sqrt()


def squared_weights(model: nn.Module, site: Site) -> Tensor:
    """Return the sum of squares of each unit's weights at one site, float64 `[units]`."""
    return _squared_rows(model, site) + _squared_columns(model, site)


def _squared_columns(model: nn.Module, site: Site) -> Tensor:
    columns = model.get_submodule(site.consumer).get_parameter("weight").double()
    return columns.square().sum(dim=0).reshape(site.units, -1).sum(dim=1)


def _squared_rows(model: nn.Module, site: Site) -> Tensor:
    squares = torch.zeros(site.units, dtype=torch.float64, device=device_of(model))
    for producer in site.producers:
        weight = model.get_submodule(producer.module).get_parameter("weight")
        squares += weight.double().square().reshape(producer.parts, site.units, -1).sum(dim=(0, 2))
    return squares
