"""The curve: what each size of an elastic model keeps, in fidelity and in retrieval."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

from torch import Tensor, nn

from pliant.batches import Batch
from pliant.budget import Cut
from pliant.cost import Cost
from pliant.errors import InputError
from pliant.evaluation.embedding import embed_texts
from pliant.evaluation.fidelity import fidelity
from pliant.evaluation.retrieval import RetrievalTask, ndcg

NDCG_AT = 10
"""The first documents that count in a curve's nDCG."""


class Sizes(Protocol):
    """The part of `Elastic` that an evaluation needs."""

    def at(self, *, sparsity: float) -> nn.Module:
        """Return the model of that size."""
        ...

    def plan(self, *, sparsity: float) -> Cut:
        """Return the cut of that size."""
        ...

    def cost(self, cut: Cut) -> Cost:
        """Return what `cut` costs."""
        ...


@dataclass(frozen=True)
class Point:
    """One size of a curve.

    Args:
        sparsity: What was asked for.
        achieved_sparsity: Removed fraction of the prunable parameters, after alignment.
        parameters: All parameters of the slim model.
        macs: Multiply-accumulates for one input of the curve's `tokens`.
        cosine: Mean cosine similarity to the full model's embeddings.
        worst_cosine: 5th percentile of that similarity.
        ndcg_slim_queries: nDCG@10 with queries by the slim and documents by the full model; None without a task.
        ndcg_both_slim: nDCG@10 with both by the slim model; None without a task.
        token_cosine: Mean cosine similarity to the full model's token outputs; None where they weren't measured.
    """

    sparsity: float
    achieved_sparsity: float
    parameters: int
    macs: int
    cosine: float
    worst_cosine: float
    ndcg_slim_queries: float | None = None
    ndcg_both_slim: float | None = None
    token_cosine: float | None = None


@dataclass(frozen=True)
class Curve:
    """What each size of one model, ranked in one way, keeps.

    Args:
        model: The model's name.
        ranker: How its units were ranked.
        task: What it was measured on.
        full_ndcg: nDCG@10 of the full model; None without a retrieval task.
        points: The sizes, from the largest model to the smallest.
        tokens: Length of the input that MACs are given for.
        full_parameters: All parameters of the full model.
        full_macs: Multiply-accumulates of the full model for one input of `tokens`.
    """

    model: str
    ranker: str
    task: str
    full_ndcg: float | None
    points: tuple[Point, ...]
    tokens: int
    full_parameters: int
    full_macs: int

    @property
    def has_tokens(self) -> bool:
        """Whether token outputs were compared too."""
        return any(point.token_cosine is not None for point in self.points)

    def at(self, sparsity: float) -> Point | None:
        """Return the point for which `sparsity` was asked, if there is one."""
        return next((point for point in self.points if point.sparsity == sparsity), None)

    def to_json(self) -> dict[str, Any]:
        """Return the curve as a dictionary that JSON can hold."""
        return {**asdict(self), "points": [asdict(point) for point in self.points]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Curve":
        """Return the curve that `to_json` wrote.

        Raises:
            InputError: A field is missing, or one is unknown.
        """
        _check_fields(cls, data)
        for point in data["points"]:
            _check_fields(Point, point)
        return cls(**{**data, "points": tuple(Point(**point) for point in data["points"])})


def _check_fields(kind: type[Curve] | type[Point], data: Mapping[str, Any]) -> None:
    wanted = {field.name for field in fields(kind)}
    if set(data) != wanted:
        raise InputError(
            f"Not a saved {kind.__name__.lower()}: missing {sorted(wanted - set(data))}, unknown "
            f"{sorted(set(data) - wanted)}. Measure it again with this version."
        )


@dataclass(frozen=True)
class _Inputs:
    """The texts of one measurement, queries before documents, and how to embed them."""

    texts: tuple[str, ...]
    task: RetrievalTask | None
    batches_of: Callable[[Sequence[str]], Iterable[Batch]]
    pooling: str

    def embed(self, model: nn.Module, progress: Callable[[int], None]) -> Tensor:
        return embed_texts(model, self.texts, self.batches_of, self.pooling, progress=progress)

    def ndcg(self, queries: Tensor, documents: Tensor) -> float | None:
        """Score embeddings of all texts, taking the queries of one and the documents of another."""
        if self.task is None:
            return None
        first_document = len(self.task.queries)
        return ndcg(queries[:first_document], documents[first_document:], self.task.relevant, NDCG_AT)


def _steps(progress: Callable[[str, float], None] | None, sizes: int, texts: int) -> Callable[[str, int, int], None]:
    """Turn "so many texts of this size are done" into a fraction of the whole measurement."""

    def report(label: str, size: int, done: int) -> None:
        if progress is not None:
            progress(label, (size + done / texts) / sizes)

    return report


def _point(inputs: _Inputs, sparsity: float, price: Cost, full: Tensor, slim: Tensor) -> Point:
    closeness = fidelity(full, slim)
    return Point(
        sparsity=sparsity,
        achieved_sparsity=price.sparsity,
        parameters=price.parameters,
        macs=price.macs,
        cosine=closeness.cosine,
        worst_cosine=closeness.worst,
        ndcg_slim_queries=inputs.ndcg(slim, full),
        ndcg_both_slim=inputs.ndcg(slim, slim),
    )


def measure(
    elastic: Sizes,
    sparsities: Iterable[float],
    task: RetrievalTask | None,
    texts: Sequence[str],
    batches_of: Callable[[Sequence[str]], Iterable[Batch]],
    pooling: str,
    *,
    model: str,
    ranker: str,
    task_name: str,
    progress: Callable[[str, float], None] | None = None,
) -> Curve:
    """Measure what each size keeps; the full model embeds the inputs once.

    Args:
        elastic: The elastic model.
        sparsities: The sizes; repeated ones count once.
        task: Queries and documents to measure on; None measures fidelity on `texts` alone.
        texts: What to measure fidelity on without a task; with one, its own queries and documents are used.
        batches_of: Makes the model's inputs from texts, in their order.
        pooling: How token outputs become one embedding: `cls`, `mean`, `last` or `pooler`.
        model: The model's name, for the curve.
        ranker: How its units were ranked, for the curve.
        task_name: What it is measured on, for the curve.
        progress: Called after each batch with what is being embedded and the fraction of the whole that is done.

    Raises:
        InputError: There are no sparsities or texts, or embedding fails (as `embed`).
        BudgetError: A sparsity can't be met.
    """
    measured = tuple(texts) if task is None else task.queries + task.documents
    sizes = sorted(set(sparsities))
    if not sizes or not measured:
        raise InputError(f"{len(sizes)} sparsities and {len(measured)} texts: a curve needs at least one of each.")
    inputs = _Inputs(measured, task, batches_of, pooling)
    # All planned first: a budget that can't be met fails before the long part.
    full_cut, cuts = elastic.plan(sparsity=0.0), [elastic.plan(sparsity=sparsity) for sparsity in sizes]
    report = _steps(progress, len(sizes) + 1, len(measured))
    full = inputs.embed(elastic.at(sparsity=0.0), lambda done: report("full model", 0, done))
    points: list[Point] = []
    for number, (sparsity, cut) in enumerate(zip(sizes, cuts, strict=True), start=1):
        label = f"sparsity {sparsity:.0%}"
        slim = full
        if cut.widths != full_cut.widths:
            slim = inputs.embed(elastic.at(sparsity=sparsity), lambda done, n=number, what=label: report(what, n, done))
        report(label, number, len(measured))
        points.append(_point(inputs, sparsity, elastic.cost(cut), full, slim))
    price = elastic.cost(full_cut)
    full_ndcg = inputs.ndcg(full, full)
    return Curve(model, ranker, task_name, full_ndcg, tuple(points), price.tokens, price.parameters, price.macs)
