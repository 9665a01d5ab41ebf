from typing import Any

import pytest
import torch
from contracts.elastics import ranked
from contracts.models import by_name, specimens
from contracts.specimen import Specimen, output_of
from torch import Tensor, nn

from pliant.anatomy import Anatomy
from pliant.batches import forward
from pliant.errors import UnsupportedModelError
from pliant.families import describe
from pliant.gates import Gates, consumer_hooks, frozen, gated


class Stopped(Exception):
    """Raised in the middle of something."""


def hooks(model: nn.Module) -> int:
    return sum(len(module._forward_pre_hooks) for module in model.modules())


@specimens
def test_without_masks_nothing_changes(specimen: Specimen) -> None:
    model = specimen.model()
    before = output_of(forward(model, specimen.batch()))
    with gated(model, describe(model), ranked(specimen.name).rest) as gates:
        assert torch.equal(output_of(forward(model, specimen.batch())), before)
        gates.masks = torch.ones(describe(model).units)
        torch.testing.assert_close(output_of(forward(model, specimen.batch())), before, atol=1e-6, rtol=0)


def test_dimming_by_hand(tiny: Anatomy) -> None:
    """Heads take two columns each, neurons one; m·x + (1 − m)·r."""
    gates = Gates(tiny, (torch.tensor([10.0, 20.0, 30.0, 40.0]), torch.tensor([5.0, 6.0, 7.0])))
    gates.masks = torch.tensor([0.0, 0.5, 1.0, 0.0, 0.25])
    assert gates.dim(0, torch.tensor([[1.0, 2.0, 3.0, 4.0]])).tolist() == [[10, 20, 16.5, 22]]  # pyright: ignore[reportOptionalMemberAccess]
    assert gates.dim(1, torch.tensor([[[1.0, 2.0, 3.0]]])).tolist() == [[[1, 6, 6]]]  # pyright: ignore[reportOptionalMemberAccess]


@pytest.fixture
def tiny() -> Anatomy:
    from contracts.anatomies import anatomy_of, heads, neurons

    return anatomy_of([heads(0, 2, width=2), neurons(0, 3)])


def test_dimming_keeps_the_type_of_its_inputs(tiny: Anatomy) -> None:
    gates = Gates(tiny, (torch.rand(4), torch.rand(3)))
    gates.masks = torch.rand(5)
    dimmed = gates.dim(1, torch.rand(2, 3, dtype=torch.bfloat16))
    assert dimmed is not None
    assert dimmed.dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_masks_and_rest_values_count_in_float32(tiny: Anatomy, dtype: torch.dtype) -> None:
    rest = (torch.rand(4), torch.rand(3, requires_grad=True))
    gates, masks, inputs = Gates(tiny, rest), torch.rand(5, requires_grad=True), torch.rand(2, 3).to(dtype)
    gates.masks = masks
    dimmed = gates.dim(1, inputs)
    assert dimmed is not None
    exact = masks[2:] * inputs.float() + (1 - masks[2:]) * rest[1]
    torch.testing.assert_close(dimmed.detach(), exact.to(dtype).detach(), atol=0, rtol=0.01)
    slopes = torch.autograd.grad(dimmed.float().sum(), (masks, rest[1]))
    expected = torch.autograd.grad(exact.sum(), (masks, rest[1]))
    for mine, theirs in zip(slopes, expected, strict=True):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine, theirs)


def test_masks_take_gradients_in_every_unit() -> None:
    specimen = by_name("bert")
    model = specimen.model().requires_grad_(False)
    with gated(model, describe(model), ranked("bert").rest) as gates:
        masks = torch.full((describe(model).units,), 0.5, requires_grad=True)
        gates.masks = masks
        output_of(forward(model, specimen.batch())).square().sum().backward()
    assert masks.grad is not None
    assert (masks.grad != 0).all()


@specimens
def test_hooks_see_every_consumer_once(specimen: Specimen) -> None:
    model = specimen.model()
    anatomy = describe(model)
    seen: dict[int, torch.Size] = {}

    def look(index: int, inputs: Tensor) -> None:
        assert index not in seen
        seen[index] = inputs.shape

    with consumer_hooks(model, anatomy, look):
        forward(model, specimen.batch())
    assert sorted(seen) == list(range(len(anatomy.sites)))
    assert all(seen[index][-1] == site.units * site.width for index, site in enumerate(anatomy.sites))


def test_hooks_are_removed_whatever_happens() -> None:
    model = by_name("bert").model()
    anatomy = describe(model)
    with pytest.raises(Stopped), gated(model, anatomy, ranked("bert").rest):
        assert hooks(model) == len(anatomy.sites)
        raise Stopped
    assert hooks(model) == 0


def test_half_attached_hooks_are_removed() -> None:
    """The last site's consumer is gone by the time that hooks are attached."""
    model = by_name("bert").model()
    anatomy = describe(model)
    del model.encoder.layer[1].output.dense
    with pytest.raises(AttributeError), gated(model, anatomy, ranked("bert").rest):
        raise AssertionError("the block must not run")
    assert hooks(model) == 0


def test_a_consumer_with_more_than_one_input() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.Bilinear(2, 2, 2)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.down(inputs, inputs)

    from dataclasses import replace

    from contracts.anatomies import anatomy_of, neurons

    anatomy = anatomy_of([replace(neurons(0, 2), consumer="down")])
    model = Odd()
    with pytest.raises(UnsupportedModelError, match="down is called with 2"), consumer_hooks(model, anatomy, never):
        model(torch.zeros(1, 2))


def never(index: int, inputs: Tensor) -> Any:
    raise AssertionError("must not be called")


def test_frozen_puts_flags_back() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.Linear(2, 2))
    model[0].eval()
    model[2].weight.requires_grad_(False)
    with pytest.raises(Stopped), frozen(model):
        assert not any(module.training for module in model.modules())
        assert not any(parameter.requires_grad for parameter in model.parameters())
        raise Stopped
    assert [module.training for module in model.modules()] == [True, False, True, True]
    assert [parameter.requires_grad for parameter in model.parameters()] == [True, True, False, True]
