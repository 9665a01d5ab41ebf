"""The curve of a model whose token outputs are used beside its embedding: image encoders."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from pliant.batches import Batch, device_of, forward, to_device, valid_tokens
from pliant.cost import Cost
from pliant.errors import InputError
from pliant.evaluation.curve import Curve, Point, Sizes
from pliant.evaluation.embedding import check_embedding, check_embedding_pooling, evaluating
from pliant.evaluation.fidelity import fidelity, similarities
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

    @property
    def inputs(self) -> int:
        """Inputs so far."""
        return sum(map(len, self.embeddings))

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
            batch, or an output of the full model is not finite.
        BudgetError: A sparsity can't be met.
    """
    check_embedding_pooling(pooling)
    sizes = sorted(set(sparsities))
    if not sizes:
        raise InputError("No sparsities: a curve needs at least one, such as 0.5.")
    # All planned first: a budget that can't be met fails before the long part.
    full_cut, cuts = elastic.plan(sparsity=0.0), [elastic.plan(sparsity=sparsity) for sparsity in sizes]
    full, slim = _Sums(), [_Sums() for _ in sizes]
    for batch in batches:
        expected = _outputs(elastic.at(sparsity=0.0), batch, pooling)
        check_embedding(expected.embeddings, full.inputs)
        full.add_(expected, expected)
        for sums, cut, sparsity in zip(slim, cuts, sizes, strict=True):
            same = cut.widths == full_cut.widths
            sums.add_(expected if same else _outputs(elastic.at(sparsity=sparsity), batch, pooling), expected)
        if progress is not None:
            progress(full.inputs)
    if not full.inputs:
        raise InputError("There are no batches to measure on. Pass at least one input.")
    points = tuple(
        _point(sparsity, elastic.cost(cut), full, sums) for sparsity, cut, sums in zip(sizes, cuts, slim, strict=True)
    )
    price = elastic.cost(full_cut)
    return Curve(model, ranker, task_name, None, points, price.tokens, price.parameters, price.macs)


def _outputs(model: nn.Module, batch: Batch, pooling: str) -> _Outputs:
    inputs = to_device(batch, device_of(model))
    # Not inference_mode: some models keep what they make at a first call, such as positions, and train with it later.
    with evaluating(model), torch.no_grad():
        outputs = _called(model, inputs)
        tokens = pool(outputs, inputs, "tokens")
        if tokens.dim() == 3:
            tokens = tokens[valid_tokens(inputs, tokens)]
        return _Outputs(pool(outputs, inputs, pooling).float().cpu(), tokens.float())


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


def _point(sparsity: float, price: Cost, full: _Sums, slim: _Sums) -> Point:
    closeness = fidelity(torch.cat(full.embeddings), torch.cat(slim.embeddings))
    return Point(
        sparsity=sparsity,
        achieved_sparsity=price.sparsity,
        parameters=price.parameters,
        macs=price.macs,
        cosine=closeness.cosine,
        worst_cosine=closeness.worst,
        token_cosine=slim.token_cosines / slim.tokens,
    )
