"""What a dimmed model should be good at: the losses that rank units."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from pliant.batches import Batch, size
from pliant.errors import InputError
from pliant.pooling import check_pooling, distillation_of, kept_outputs

Target = Tensor | tuple[Tensor, ...] | None
"""What a loss compares with."""


@runtime_checkable
class Objective(Protocol):
    """A loss for dimmed models, with the full model's outputs as a target where it needs one."""

    @property
    def name(self) -> str:
        """A short name for provenance."""
        ...

    def target(self, outputs: Any, batch: Batch) -> Target:
        """Return what the loss compares with, from the full model's outputs."""
        ...

    def loss(self, outputs: Any, target: Target, batch: Batch) -> Tensor:
        """Return the scalar loss of a dimmed model's outputs."""
        ...

    def probe(self, outputs: Any, batch: Batch, generator: torch.Generator) -> Tensor:
        """Return a scalar whose gradient shows how far the full model's outputs depend on each unit."""
        ...


@dataclass(frozen=True)
class Distillation:
    """Cosine distance to the full model's embedding, or with pooling `tokens` to each valid token's output.

    Args:
        pooling: One of `pliant.pooling.POOLINGS`.
    """

    pooling: str

    def __post_init__(self) -> None:
        """Refuse unknown poolings."""
        check_pooling(self.pooling)

    @property
    def name(self) -> str:
        """A short name for provenance."""
        return distillation_of(self.pooling)

    def target(self, outputs: Any, batch: Batch) -> Tensor:
        """Return the full model's normalised embeddings `[inputs or valid tokens, width]`."""
        return self._embeddings(outputs, batch)

    def loss(self, outputs: Any, target: Target, batch: Batch) -> Tensor:
        """Return one minus the mean cosine."""
        assert isinstance(target, Tensor)
        return 1 - (self._embeddings(outputs, batch) * target).sum(dim=-1).mean()

    def probe(self, outputs: Any, batch: Batch, generator: torch.Generator) -> Tensor:
        """Return a random projection of the embeddings: at the full model, the loss itself has no slope."""
        embeddings = self._embeddings(outputs, batch)
        directions = torch.randn(embeddings.shape, generator=generator).to(embeddings)
        return (embeddings * directions).sum()

    def _embeddings(self, outputs: Any, batch: Batch) -> Tensor:
        return nn.functional.normalize(kept_outputs(outputs, batch, self.pooling).float(), dim=-1)


@dataclass(frozen=True)
class DenseDistillation:
    """Mean of the cosine distances to the full model's embedding and to its token outputs, where both are used.

    Args:
        pooling: One of `pliant.pooling.POOLINGS`, for the embedding.
    """

    pooling: str

    @property
    def name(self) -> str:
        """A short name for provenance."""
        return distillation_of(self.pooling, "tokens")

    @property
    def _parts(self) -> tuple[Distillation, Distillation]:
        return Distillation(self.pooling), Distillation("tokens")

    def target(self, outputs: Any, batch: Batch) -> tuple[Tensor, ...]:
        """Return the full model's normalised embeddings `[inputs, width]` and token outputs `[valid tokens, width]`."""
        return tuple(part.target(outputs, batch) for part in self._parts)

    def loss(self, outputs: Any, target: Target, batch: Batch) -> Tensor:
        """Return the mean of the two losses."""
        assert isinstance(target, tuple)
        losses = [part.loss(outputs, full, batch) for part, full in zip(self._parts, target, strict=True)]
        return sum(losses, losses[0].new_zeros(())) / len(losses)

    def probe(self, outputs: Any, batch: Batch, generator: torch.Generator) -> Tensor:
        """Return a random projection of both, weighted as in the loss.

        The loss averages over the inputs there and over their tokens here. Squared gradients do the same when each of
        the projected vectors is weighted by the root of its share.
        """
        weighted = [
            part.probe(outputs, batch, generator) / len(part.target(outputs, batch)) ** 0.5 for part in self._parts
        ]
        return sum(weighted, weighted[0].new_zeros(())) * size(batch) ** 0.5


@dataclass(frozen=True)
class Callback:
    """A loss of the user's own.

    Args:
        function: Called with the model's outputs and the batch; returns a scalar loss.
    """

    function: Callable[[Any, Batch], Tensor]

    @property
    def name(self) -> str:
        """A short name for provenance."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def target(self, outputs: Any, batch: Batch) -> None:
        """Return nothing: the loss doesn't compare with the full model."""

    def loss(self, outputs: Any, target: Target, batch: Batch) -> Tensor:
        """Return the function's loss."""
        loss = self.function(outputs, batch)
        if not isinstance(loss, Tensor) or loss.dim():
            raise InputError(f"The objective {self.name} returned {loss!r}; a scalar tensor is needed.")
        return loss

    def probe(self, outputs: Any, batch: Batch, generator: torch.Generator) -> Tensor:
        """Return the loss: its own slope says what depends on a unit."""
        return self.loss(outputs, None, batch)


def task_loss(outputs: Any, batch: Batch) -> Tensor:
    """Return the model's own loss, for batches with `labels` and a model with a head.

    Raises:
        InputError: The model returns no loss.
    """
    loss = outputs.get("loss") if isinstance(outputs, dict) else None
    if loss is None:
        raise InputError("The model returned no loss. Put labels into the batches and use a model with a head.")
    return loss


OBJECTIVES = ("pooled", "tokens", "pooled+tokens")
"""The names of the objectives that compare with the full model's outputs."""


def objective_of(objective: str | Objective | Callable[[Any, Batch], Tensor] | None, pooling: str) -> Objective:
    """Return the objective that a user named.

    Args:
        objective: `pooled` (or None), `tokens`, `pooled+tokens`, `task`, a callable of outputs and batch, or an
            `Objective`.
        pooling: The pooling whose embedding `pooled` distils.

    Raises:
        InputError: The name or the pooling is unknown, or it is nothing of these.
    """
    check_pooling(pooling)
    if objective is None or objective == "pooled":
        return Distillation(pooling)
    if objective == "tokens":
        return Distillation("tokens")
    if objective == "pooled+tokens":
        return Distillation(pooling) if pooling == "tokens" else DenseDistillation(pooling)
    if objective == "task":
        return Callback(task_loss)
    if isinstance(objective, Objective):
        return objective
    if not callable(objective):
        raise InputError(
            f"Unknown objective {objective!r}. Allowed: pooled, tokens, pooled+tokens, task, or a callable."
        )
    return Callback(objective)
