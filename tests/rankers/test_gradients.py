"""Gradients of a unit's own weights, against autograd the plain way."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from contracts.calibrations import KINDS, calibration_of
from contracts.models import by_name
from torch import Tensor

from pliant.anatomy import Site
from pliant.batches import forward
from pliant.errors import InputError
from pliant.objectives import Callback
from pliant.rankers.calibration import Calibration
from pliant.rankers.gradients import gate_gradients, weight_gradients


def of_units(site: Site, model: Any) -> Iterator[tuple[Tensor, list[tuple[slice, slice]]]]:
    """Each weight matrix of a site, and where it holds each unit: one block for each unit, again for each part."""
    everything = slice(None)
    for producer in site.producers:
        starts = range(0, producer.parts * site.units * producer.rows, producer.rows)
        rows = [(slice(start, start + producer.rows), everything) for start in starts]
        yield model.get_submodule(producer.module).weight, rows
    columns = [(everything, slice(unit * site.width, (unit + 1) * site.width)) for unit in range(site.units)]
    yield model.get_submodule(site.consumer).weight, columns


def plain_sums(calibration: Calibration, measure: Any, salt: int) -> list[Tensor]:
    """All gradients of a batch at once, and each unit's weights by their own numbers."""
    generator, found = calibration.generator(salt=salt), []
    places = [
        (units.start, site.units, weight, blocks)
        for site, units in calibration.anatomy.slices()
        for weight, blocks in of_units(site, calibration.model)
    ]
    weights = [weight for _, _, weight, _ in places]
    for batch in calibration.observed():
        calibration.model.requires_grad_(True)
        probe = calibration.objective.probe(forward(calibration.model, batch), batch, generator)
        gradients = torch.autograd.grad(probe, weights)
        calibration.model.requires_grad_(False)
        sums = torch.zeros(calibration.anatomy.units, dtype=torch.float64)
        for (start, count, weight, blocks), gradient in zip(places, gradients, strict=True):
            for number, block in enumerate(blocks):
                sums[start + number % count] += measure(weight[block], gradient[block]).double().sum()
        found.append(sums)
    return found


@pytest.mark.parametrize("name", KINDS)
def test_sums_over_the_weights_of_a_unit(name: str) -> None:
    calibration = calibration_of(by_name(name), number=2)

    def measure(weight: Tensor, gradient: Tensor) -> Tensor:
        return (weight * gradient).abs()

    found = list(weight_gradients(calibration, measure, salt=3))
    for one, other in zip(found, plain_sums(calibration, measure, salt=3), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


def test_no_two_gradients_are_held_at_once() -> None:
    calibration = calibration_of(by_name("bert"), number=2)
    weights = [module.weight for module in calibration.model.modules() if isinstance(module, torch.nn.Linear)]
    held = []

    def measure(weight: Tensor, gradient: Tensor) -> Tensor:
        held.append(sum(each.grad is not None for each in weights))
        return gradient

    next(weight_gradients(calibration, measure, salt=3))
    assert held == [1] * 12


def test_gradients_of_the_users_own_stay() -> None:
    calibration = calibration_of(by_name("bert"), number=2)
    weight = calibration.model.get_parameter("encoder.layer.0.intermediate.dense.weight")
    weight.grad = mine = torch.ones_like(weight)
    list(weight_gradients(calibration, lambda weight, gradient: gradient, salt=3))
    assert weight.grad is mine
    assert torch.equal(mine, torch.ones_like(weight))
    assert not weight.requires_grad
    assert not weight._post_accumulate_grad_hooks


def test_as_many_batches_as_wanted() -> None:
    calibration = calibration_of(by_name("bert"))
    found = [list(gate_gradients(calibration, count)) for count in (2, 5)]
    assert [len(gradients) for gradients in found] == [2, 5]
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=False))


@pytest.mark.parametrize("looks", [gate_gradients, lambda it: weight_gradients(it, torch.mul, salt=3)])
def test_what_is_not_finite(looks: Any) -> None:
    calibration = calibration_of(by_name("bert"))
    objective = Callback(lambda outputs, batch: outputs["last_hidden_state"].sum() * float("inf"))
    with pytest.raises(InputError, match="not finite"):
        list(looks(Calibration(**{**vars(calibration), "objective": objective})))
