"""Masks on a model, and other looks at its units, as context managers that leave no trace."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from pliant.anatomy import Anatomy
from pliant.errors import UnsupportedModelError

ConsumerHook = Callable[[int, Tensor], Tensor | None]
"""Called with a site's index and its consumer's input `[..., units × width]`; may return another input."""


@contextmanager
def consumer_hooks(model: nn.Module, anatomy: Anatomy, hook: ConsumerHook) -> Iterator[None]:
    """Call `hook` whenever a consumer is called, for as long as the block runs.

    Args:
        model: The model; its hooks are as before when the block ends.
        anatomy: Its anatomy.
        hook: What to call.
    """

    def attach(index: int, name: str) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Tensor] | None]:
        def before(module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Tensor] | None:
            if len(arguments) != 1:
                raise UnsupportedModelError(f"{name} is called with {len(arguments)} positional inputs; 1 is expected.")
            changed = hook(index, arguments[0])
            return None if changed is None else (changed,)

        return before

    handles = []
    try:
        for index, site in enumerate(anatomy.sites):
            consumer = model.get_submodule(site.consumer)
            handles.append(consumer.register_forward_pre_hook(attach(index, site.consumer)))
        yield
    finally:
        for handle in handles:
            handle.remove()


class Gates:
    """The masks that dim a model's units; `None` leaves the model as it is."""

    def __init__(self, anatomy: Anatomy, rest: tuple[Tensor, ...]) -> None:
        """Start with no masks.

        Args:
            anatomy: The model's anatomy.
            rest: For each site, the rest values `[units × width]`.
        """
        self._slices = [(site.width, units) for site, units in anatomy.slices()]
        self._rest = rest
        self.masks: Tensor | None = None
        """One mask for each unit, float `[units]`, 1 for kept and 0 for removed."""

    def dim(self, index: int, inputs: Tensor) -> Tensor | None:
        """Return m·x + (1 − m)·r for the inputs `[..., units × width]` of one site's consumer."""
        if self.masks is None:
            return None
        width, units = self._slices[index]
        mask = self.masks[units].repeat_interleave(width)
        resting = ((1 - mask) * self._rest[index].to(mask.device)).to(inputs.dtype)
        return torch.addcmul(resting, mask.to(inputs.dtype), inputs)


@contextmanager
def gated(model: nn.Module, anatomy: Anatomy, rest: tuple[Tensor, ...]) -> Iterator[Gates]:
    """Dim a model's units by masks: each consumer reads m·x + (1 − m)·r for as long as the block runs.

    With masks of zeros and ones this equals removing the units and adding the rest bias.

    Args:
        model: The model; untouched when the block ends.
        anatomy: Its anatomy.
        rest: For each site, the rest values `[units × width]`.
    """
    gates = Gates(anatomy, rest)
    with consumer_hooks(model, anatomy, gates.dim):
        yield gates


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Put a model in evaluation mode without weight gradients, and back as it was when the block ends."""
    training = [(module, module.training) for module in model.modules()]
    learning = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    model.eval().requires_grad_(False)
    try:
        yield
    finally:
        for module, mode in training:
            module.training = mode
        for parameter, wanted in learning:
            parameter.requires_grad_(wanted)
