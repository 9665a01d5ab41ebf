"""Batches of model inputs: calling a model with one, where it is, how many inputs it has, and which tokens are real."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pliant.errors import InputError

_HELD_OUT = 8

MASKS = ("attention_mask", "pixel_attention_mask")
"""Names of the inputs that tell real tokens from padding: words', and patches' of images of several shapes."""

Batch = Mapping[str, Tensor] | Tensor
"""A model's keyword inputs by name, or its single positional input; the first dimension is the batch."""


class HeldOut(NamedTuple):
    """The first batches of a stream: those to judge by, and those that were read with them."""

    held_out: list[Batch]
    others: list[Batch]


def forward(model: nn.Module, batch: Batch) -> Any:
    """Call `model` with `batch`, floating-point inputs in the model's own precision, and return what it returns.

    Raises:
        ValueError: The model asserts something of its inputs that isn't so, as timm's do of an image's size.
    """
    precision = next(model.parameters()).dtype

    def fitting(value: Any) -> Any:
        fractions = isinstance(value, Tensor) and value.is_floating_point() and precision.is_floating_point
        return value.to(precision) if fractions else value

    try:
        if isinstance(batch, Tensor):
            return model(fitting(batch))
        return model(**{name: fitting(value) for name, value in batch.items()})
    except AssertionError as error:
        raise ValueError(str(error) or "an assertion of the model's own failed") from error


def called(model: nn.Module, batch: Batch) -> Any:
    """Return what a model makes of a batch that a user's data and sizes have shaped.

    Raises:
        InputError: The model can't take it; most have image sizes that they can't take.
    """
    try:
        return forward(model, batch)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, TypeError, LookupError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(
            f"The model can't take these inputs: {reason:.300}. Do the tokenizer or processor and the size suit it?"
        ) from error


def check_several(batches: object) -> None:
    """Refuse a single batch, and what can't be gone through.

    Raises:
        InputError: It is one.
    """
    if isinstance(batches, (Mapping, Tensor, str)) or not isinstance(batches, Iterable):
        raise InputError(f"One {type(batches).__name__} is not several batches. Pass a list of batches.")


def hold_out(batches: Iterable[Batch]) -> HeldOut:
    """Read the first batches, and hold out a quarter of them, at most 8.

    Args:
        batches: Calibration batches. Of an iterator, those that are read are gone from it.

    Raises:
        InputError: There are fewer than two batches, or they aren't batches.
    """
    check_several(batches)
    head = list(islice(batches, 4 * _HELD_OUT))
    if len(head) < 2:
        raise InputError(f"{len(head)} calibration batches are too few: at least 2 are needed, 1 is held out.")
    _check_batches(head)
    count = max(1, len(head) // 4)
    return HeldOut(head[:count], head[count:])


def _check_batches(batches: Sequence[Any]) -> None:
    """Refuse calibration batches that aren't tensors, or hold no input."""
    for number, batch in enumerate(batches):
        values = batch.values() if isinstance(batch, Mapping) else [batch]
        if not values or not all(isinstance(value, Tensor) for value in values):
            raise InputError(
                f"Calibration batch {number} is {batch!r:.60}; a tensor, or a mapping of names to tensors, is needed. "
                "Tokenize texts with return_tensors='pt'."
            )
        if any(value.dim() == 0 or value.shape[0] == 0 for value in values):
            raise InputError(f"Calibration batch {number} holds no input: {shapes(batch)}. Leave it out.")


def shapes(batch: Batch) -> str:
    """Return the names, shapes and dtypes of a batch's tensors, for messages."""
    named = {"inputs": batch} if isinstance(batch, Tensor) else batch
    return ", ".join(f"{name} {list(value.shape)} of {value.dtype}" for name, value in named.items())


def size(batch: Batch) -> int:
    """Return the number of inputs in `batch`."""
    if isinstance(batch, Tensor):
        return batch.shape[0]
    return next(iter(batch.values())).shape[0]


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Return `batch` with its tensors on `device`."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    return {name: value.to(device) for name, value in batch.items()}


def device_of(model: nn.Module) -> torch.device:
    """Return the device of the model's first parameter."""
    return next(model.parameters()).device


def precision_of(model: nn.Module) -> str:
    """Return the name of the dtype of a model's weights, of several the most frequent first: `bfloat16`, say."""
    weights: dict[str, int] = {}
    for parameter in model.parameters():
        name = str(parameter.dtype).removeprefix("torch.")
        weights[name] = weights.get(name, 0) + parameter.numel()
    return " and ".join(sorted(weights, key=lambda name: -weights[name]))


def valid_tokens(batch: Batch, tokens: Tensor) -> Tensor:
    """Say which tokens are real: a bool mask `[batch, tokens]` for outputs `[batch, tokens, width]`.

    Without a mask of that shape in the batch (images of one size, say), every token is real.
    """
    masks = [] if isinstance(batch, Tensor) else [batch[name] for name in MASKS if name in batch]
    for mask in masks:
        if mask.shape == tokens.shape[:2]:
            return mask.to(device=tokens.device, dtype=torch.bool)
    return torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
