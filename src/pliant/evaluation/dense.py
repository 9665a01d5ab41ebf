"""The curve of a model whose token outputs are used beside its embedding: image encoders."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from pliant.batches import Batch, device_of, forward, to_device, valid_tokens
from pliant.errors import InputError
from pliant.evaluation.curve import Curve, Point
from pliant.evaluation.embedding import check_embedding, check_embedding_pooling, evaluating
from pliant.evaluation.fidelity import fidelity, similarities
from pliant.evaluation.ladder import Ladder, Rung, Sizes
from pliant.pooling import pool


@dataclass(frozen=True)
class _Outputs:
    """What a model gives for one batch: embeddings `[batch, width]`, and the outputs of all tokens, one a row."""

    embeddings: Tensor
    tokens: Tensor


@dataclass
class _Sums:
    """What one size has shown so far."""

    embeddings: list[Tensor] = field(default_factory=list)
    token_cosines: float = 0.0
    tokens: int = 0

    def add_(self, slim: _Outputs, full: _Outputs) -> None:
        """Take one batch in."""
        self.embeddings.append(slim.embeddings)
        self.token_cosines += similarities(full.tokens, slim.tokens).sum().item()
        self.tokens += len(full.tokens)


def measure_dense(
    elastic: Sizes,
    sparsities: Iterable[float],
    batches: Iterable[Batch],
    pooling: str,
    *,
    model: str,
    ranker: str,
    task_name: str,
    progress: Callable[[int], None] | None = None,
) -> Curve:
    """Measure how closely each size follows the full model, in embeddings and in the outputs of all tokens.

    Every batch is read once and goes through all sizes, as the tokens of many inputs would not fit in memory.

    Args:
        elastic: The elastic model.
        sparsities: The sizes; repeated ones count once.
        batches: The model's inputs.
        pooling: How token outputs become one embedding: `cls`, `mean`, `last` or `pooler`.
        model: The model's name, for the curve.
        ranker: How its units were ranked, for the curve.
        task_name: What it is measured on, for the curve.
        progress: Called after each batch with the number of inputs done so far.

    Raises:
        InputError: There are no sparsities or batches, the pooling gives no single embedding, the model can't take a
            batch, or an embedding is not finite.
        BudgetError: A sparsity can't be met.
    """
    check_embedding_pooling(pooling)
    ladder = Ladder.of(elastic, sparsities)
    full: list[Tensor] = []
    slim, done = [_Sums() for _ in ladder.rungs], 0
    for batch in batches:
        expected = _outputs(elastic.at(sparsity=0.0), batch, pooling, done)
        full.append(expected.embeddings)
        for rung, sums in zip(ladder.rungs, slim, strict=True):
            view = None if rung.is_full else elastic.at(sparsity=rung.sparsity)
            sums.add_(expected if view is None else _outputs(view, batch, pooling, done), expected)
        done += len(expected.embeddings)
        if progress is not None:
            progress(done)
    if not full:
        raise InputError("There are no batches to measure on. Pass at least one input.")
    points = [_point(rung, torch.cat(full), sums) for rung, sums in zip(ladder.rungs, slim, strict=True)]
    return ladder.curve(points, model=model, ranker=ranker, task=task_name)


def _outputs(model: nn.Module, batch: Batch, pooling: str, first: int) -> _Outputs:
    """Return what a model gives for a batch that begins with input `first`."""
    inputs = to_device(batch, device_of(model))
    with evaluating(model):
        outputs = _called(model, inputs)
        tokens = pool(outputs, inputs, "tokens")
        if tokens.dim() == 3:
            tokens = tokens[valid_tokens(inputs, tokens)]
        embeddings = pool(outputs, inputs, pooling).float().cpu()
    check_embedding(embeddings, first)
    return _Outputs(embeddings, tokens.float())


def _called(model: nn.Module, inputs: Batch) -> Any:
    """Return what a model makes of its inputs; most have image sizes that they can't take."""
    try:
        return forward(model, inputs)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, TypeError, LookupError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(
            f"The model can't take these inputs: {reason:.300}. Do the processor and the size of the images suit it?"
        ) from error


def _point(rung: Rung, full: Tensor, slim: _Sums) -> Point:
    closeness = fidelity(full, torch.cat(slim.embeddings))
    return replace(rung.point(closeness), token_cosine=slim.token_cosines / slim.tokens)
