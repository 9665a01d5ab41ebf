"""Ways from a model's outputs to one embedding per input."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from pliant.batches import Batch, valid_tokens
from pliant.errors import InputError


def token_outputs(outputs: Any) -> Tensor:
    """Return the token outputs `[batch, tokens, width]` (or an embedding `[batch, width]`) of a model's result."""
    if isinstance(outputs, Tensor):
        return outputs
    if isinstance(outputs, Mapping):
        if "last_hidden_state" not in outputs:
            raise InputError(
                f"The model returned {sorted(outputs)} without last_hidden_state, so there is nothing to pool. "
                "Pass the encoder without its head, or an objective of your own."
            )
        return outputs["last_hidden_state"]
    if isinstance(outputs, (tuple, list)) and outputs and isinstance(outputs[0], Tensor):
        return outputs[0]
    raise InputError(f"The model returned a {type(outputs).__name__}; a tensor or a mapping of tensors is needed.")


def _cls(tokens: Tensor, valid: Tensor) -> Tensor:
    first = valid.int().argmax(dim=1)
    return tokens[torch.arange(len(tokens), device=tokens.device), first]


def _mean(tokens: Tensor, valid: Tensor) -> Tensor:
    # Sixteen bits can't count more than 256 tokens one by one.
    precision = torch.promote_types(tokens.dtype, torch.float32)
    weight = valid.unsqueeze(-1).to(tokens.dtype)
    total, count = (tokens * weight).sum(dim=1, dtype=precision), valid.sum(dim=1, keepdim=True)
    return (total / count.clamp(min=1).to(precision)).to(tokens.dtype)


def _last(tokens: Tensor, valid: Tensor) -> Tensor:
    last = valid.shape[1] - 1 - valid.flip(1).int().argmax(dim=1)
    return tokens[torch.arange(len(tokens), device=tokens.device), last]


_TOKEN_POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"cls": _cls, "mean": _mean, "last": _last}

_POOLED = ("pooler_output", "text_embeds", "image_embeds")
"""Names of an embedding that a model pools itself, and of one that a tower projects into a space of two."""

POOLINGS = (*_TOKEN_POOLINGS, "pooler", "tokens")
"""The names that `pooling` may have; `tokens` keeps every token's output."""


_DISTILLATION, _AND = "distillation of ", " and "


def check_pooling(pooling: str) -> str:
    """Return `pooling`, or raise `InputError` when it is none of `POOLINGS`."""
    if pooling not in POOLINGS:
        raise InputError(f"Unknown pooling {pooling!r}. Allowed: {', '.join(POOLINGS)}.")
    return pooling


def pool(outputs: Any, batch: Batch, pooling: str) -> Tensor:
    """Return one embedding per input `[batch, width]`, or for `tokens` every token's `[batch, tokens, width]`.

    Padding never counts: `cls`, `mean` and `last` look at valid tokens only. `pooler` is the model's own pooling head,
    such as SigLIP's attention pooling. A model that returns embeddings has pooled by itself, whatever the name.

    Args:
        outputs: What the model returned.
        batch: The inputs that it was called with.
        pooling: One of `POOLINGS`.

    Raises:
        InputError: The pooling is unknown, or the model's result does not offer it.
    """
    check_pooling(pooling)
    if pooling == "pooler" and not _is_embedding(outputs):
        offered = outputs if isinstance(outputs, Mapping) else {}
        pooled = next((offered[name] for name in _POOLED if offered.get(name) is not None), None)
        if pooled is None:
            raise InputError("The model has no pooler output. Use another pooling: cls, mean, last or tokens.")
        return pooled
    tokens = token_outputs(outputs)
    if pooling == "tokens" or tokens.dim() == 2:
        return tokens
    return _TOKEN_POOLINGS[pooling](tokens, valid_tokens(batch, tokens))


def kept_outputs(outputs: Any, batch: Batch, pooling: str) -> Tensor:
    """Return what a pooling keeps, a row each `[rows, width]`: the inputs' embeddings, or for `tokens` valid tokens.

    Args:
        outputs: What the model returned.
        batch: The inputs that it was called with.
        pooling: One of `POOLINGS`.

    Raises:
        InputError: The pooling is unknown, or the model's result does not offer it.
    """
    pooled = pool(outputs, batch, pooling)
    return pooled[valid_tokens(batch, pooled)] if pooled.dim() == 3 else pooled


def distillation_of(*poolings: str) -> str:
    """Return the name of an objective that keeps what these poolings give, as rankings record it."""
    return f"{_DISTILLATION}{_AND.join(poolings)}"


def distilled_poolings(objective: object) -> tuple[str, ...]:
    """Return the poolings that an objective of this name keeps; none where it isn't one of `distillation_of`."""
    if not isinstance(objective, str) or not objective.startswith(_DISTILLATION):
        return ()
    return tuple(objective.removeprefix(_DISTILLATION).split(_AND))


def _is_embedding(outputs: Any) -> bool:
    return isinstance(outputs, Tensor) and outputs.dim() == 2
