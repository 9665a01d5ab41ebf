"""Masks on a model, and other looks at its units, as context managers that leave no trace."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

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
    """The masks that dim a model's units, and what corrects its norms; `None` leaves the model as it is."""

    def __init__(self, anatomy: Anatomy, rest: tuple[Tensor, ...]) -> None:
        """Start with no masks.

        Args:
            anatomy: The model's anatomy.
            rest: For each site, the rest values `[units × width]`.
        """
        self._slices = [(site.width, units) for site, units in anatomy.slices()]
        self.rest = rest
        """For each site, what removed units are replaced by `[units × width]`."""
        self._biased = [norm.bias for norm in anatomy.norms]
        self.masks: Tensor | None = None
        """One mask for each unit, float `[units]`, 1 for kept and 0 for removed."""
        self.norms: Tensor | None = None
        """g and b of each norm, float `[norms, 2, width]`; None leaves the norms as they are."""

    def dim(self, index: int, inputs: Tensor) -> Tensor | None:
        """Return m·x + (1 − m)·r for the inputs `[..., units × width]` of one site's consumer.

        Masks and rest values count in their own precision, and so do their gradients; only the result is in the
        inputs'.
        """
        if self.masks is None:
            return None
        width, units = self._slices[index]
        mask = self.masks[units].repeat_interleave(width)
        resting = (1 - mask) * self.rest[index].to(mask.device)
        return torch.addcmul(resting, mask, inputs).to(inputs.dtype)

    def correct(self, index: int, outputs: Tensor) -> Tensor | None:
        """Return y + g ⊙ y + b for the outputs `[..., width]` of one norm; one without a bias has no b."""
        if self.norms is None:
            return None
        gain, shift = self.norms[index]
        scaled = torch.addcmul(shift, 1 + gain, outputs) if self._biased[index] else (1 + gain) * outputs
        return scaled.to(outputs.dtype)

    def pinned(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        """Return a block for a computation, and one for its repetition, in which the gates are as they are now."""
        return nullcontext(), self._as(self.masks, self.norms)

    @contextmanager
    def _as(self, masks: Tensor | None, norms: Tensor | None) -> Iterator[None]:
        present = self.masks, self.norms
        self.masks, self.norms = masks, norms
        try:
            yield
        finally:
            self.masks, self.norms = present


@contextmanager
def gated(
    model: nn.Module, anatomy: Anatomy, rest: tuple[Tensor, ...], *, checkpointing: bool = False
) -> Iterator[Gates]:
    """Dim a model's units by masks: each consumer reads m·x + (1 − m)·r for as long as the block runs.

    With masks of zeros and ones this equals removing the units and adding the rest bias. Norms can be corrected too.

    Args:
        model: The model; untouched when the block ends.
        anatomy: Its anatomy.
        rest: For each site, the rest values `[units × width]`.
        checkpointing: Keep only each layer's input for the backward pass and run the layer again there, under the
            masks that it ran under: less memory for about half as much time again, and the same gradients.
    """
    gates = Gates(anatomy, rest)
    with (
        consumer_hooks(model, anatomy, gates.dim),
        _norm_hooks(model, anatomy, gates.correct),
        _repeated(model, anatomy.layers if checkpointing else (), gates),
    ):
        yield gates


@contextmanager
def _norm_hooks(model: nn.Module, anatomy: Anatomy, hook: ConsumerHook) -> Iterator[None]:
    """Let `hook`, called with a norm's index and output, change the output of every norm while the block runs."""

    def attach(index: int) -> Callable[[nn.Module, Any, Tensor], Tensor | None]:
        return lambda _module, _inputs, outputs: hook(index, outputs)

    norms = [model.get_submodule(norm.module) for norm in anatomy.norms]
    handles = [norm.register_forward_hook(attach(index)) for index, norm in enumerate(norms)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _repeated(model: nn.Module, layers: Sequence[str], gates: Gates) -> Iterator[None]:
    """Let layers run again in the backward pass instead of keeping what they computed."""
    wrapped = [model.get_submodule(path) for path in layers]
    try:
        for layer in wrapped:
            # On the object, where it hides the class's own, which comes back when it is taken away.
            layer.forward = _repeating(layer.forward, gates)
        yield
    finally:
        for layer in wrapped:
            vars(layer).pop("forward", None)


def _repeating(forward: Callable[..., Any], gates: Gates) -> Callable[..., Any]:
    def run(*arguments: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*arguments, **named)
        # A second run would append to a cache of keys and values what the first did.
        positional = [None if _is_cache(value) else value for value in arguments]
        others = {name: None if _is_cache(value) else value for name, value in named.items()}
        return checkpoint(partial(forward, **others), *positional, use_reentrant=False, context_fn=gates.pinned)

    return run


def _is_cache(value: Any) -> bool:
    from transformers.cache_utils import Cache

    return isinstance(value, Cache)


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
