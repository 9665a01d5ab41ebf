"""The curve of a model whose embeddings are used: fidelity of texts, and retrieval with them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from pliant.batches import Batch
from pliant.errors import InputError
from pliant.evaluation.curve import NDCG_AT, Curve, Point
from pliant.evaluation.embedding import embed_texts
from pliant.evaluation.fidelity import fidelity
from pliant.evaluation.ladder import Ladder, Rung, Sizes
from pliant.evaluation.retrieval import RetrievalTask, ndcg


@dataclass(frozen=True)
class _Inputs:
    """The texts of one measurement, queries before documents, and how to embed them."""

    texts: tuple[str, ...]
    task: RetrievalTask | None
    batches_of: Callable[[Sequence[str]], Iterable[Batch]]
    pooling: str

    def embed(self, model: nn.Module, progress: Callable[[int], None]) -> Tensor:
        return embed_texts(model, self.texts, self.batches_of, self.pooling, progress=progress)

    def point(self, rung: Rung, full: Tensor, slim: Tensor) -> Point:
        point = rung.point(fidelity(full, slim))
        return replace(point, ndcg_slim_queries=self.ndcg(slim, full), ndcg_both_slim=self.ndcg(slim, slim))

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
    ladder = Ladder.of(elastic, sparsities)
    if not measured:
        raise InputError("There are no texts to measure on. Pass at least one.")
    inputs = _Inputs(measured, task, batches_of, pooling)
    report = _steps(progress, len(ladder.rungs) + 1, len(measured))
    full = inputs.embed(elastic.at(sparsity=0.0), lambda done: report("full model", 0, done))
    points: list[Point] = []
    for number, rung in enumerate(ladder.rungs, start=1):
        label = f"sparsity {rung.sparsity:.0%}"
        slim = full
        if not rung.is_full:
            view = elastic.at(sparsity=rung.sparsity)
            slim = inputs.embed(view, lambda done, n=number, what=label: report(what, n, done))
        report(label, number, len(measured))
        points.append(inputs.point(rung, full, slim))
    return ladder.curve(points, model=model, ranker=ranker, task=task_name, full_ndcg=inputs.ndcg(full, full))
