"""Retrieval: queries, documents, which belong together, and how far up each query's documents come."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pliant.errors import InputError

# 1,024 × 8,192 float64 similarities are 64 MiB: the most that `query_scores` holds at once.
_PAIRS = 1024
_DOCUMENTS = 8192
# Equal documents get similarities that differ in the last bits, as matrix kernels sum in different orders.
_TIE = 1e-9

Relevant = Set[int] | Mapping[int, float]
"""The indices of a query's documents; where some are better than others, with their gains, all above zero."""


@dataclass(frozen=True)
class RetrievalTask:
    """Queries, documents, and the documents that answer each query.

    Args:
        queries: The queries' texts.
        documents: The documents' texts.
        relevant: For each query, the indices of its documents, or a mapping from them to their gains.

    Raises:
        InputError: There are no queries or documents, `relevant` has another length than `queries`, or a query
            has no document, one that doesn't exist, or one whose gain isn't above zero.
    """

    queries: tuple[str, ...]
    documents: tuple[str, ...]
    relevant: tuple[frozenset[int] | Mapping[int, float], ...]

    def __post_init__(self) -> None:
        """Refuse a task that can't be scored."""
        _check_relevant(self.relevant, len(self.queries), len(self.documents))


def _check_relevant(relevant: Sequence[Relevant], queries: int, documents: int) -> None:
    if not queries or not documents:
        raise InputError(f"{queries} queries and {documents} documents: retrieval needs at least one of each.")
    if len(relevant) != queries:
        raise InputError(f"{queries} queries, but relevant documents for {len(relevant)}. Give one set per query.")
    for query, indices in enumerate(relevant):
        if not indices:
            raise InputError(f"Query {query} has no relevant document. Give it one, or leave the query out.")
        wrong = [index for index in sorted(indices) if not 0 <= index < documents]
        if wrong:
            raise InputError(
                f"Query {query} has the relevant document {wrong[0]}; documents are numbered 0 to {documents - 1}."
            )
        if isinstance(indices, Mapping) and not all(gain > 0 for gain in indices.values()):
            raise InputError(f"Query {query} has a document with a gain of {min(indices.values())}. Leave it out.")


def _check_embeddings(queries: Tensor, documents: Tensor, k: int) -> None:
    if queries.dim() != 2 or documents.dim() != 2 or queries.shape[1] != documents.shape[1]:
        raise InputError(
            f"Queries of shape {list(queries.shape)} and documents of shape {list(documents.shape)} can't be compared. "
            "Both must be [inputs, width], of one width."
        )
    if not (queries.isfinite().all() and documents.isfinite().all()):
        raise InputError("An embedding is not finite, so it has no rank. Load the model in float32.")
    if k < 1:
        raise InputError(f"k is {k}; the first k documents are looked at, so it must be at least 1.")


def _directions(embeddings: Tensor) -> Tensor:
    return functional.normalize(embeddings.double(), dim=1)


def _on_grid(similarities: Tensor) -> Tensor:
    return similarities.div(_TIE).round()


def _ranks(queries: Tensor, documents: Tensor, answers: Tensor) -> Tensor:
    """Return the rank from 0 of document `answers[i]` for query `queries[i]`, by counting those before it."""
    asked = _directions(queries)
    own = _on_grid((asked * _directions(documents[answers])).sum(dim=1))
    before = torch.zeros_like(answers)
    for start in range(0, len(documents), _DOCUMENTS):
        similarities = _on_grid(asked @ _directions(documents[start : start + _DOCUMENTS]).T)
        index = torch.arange(start, start + similarities.shape[1])
        ahead = similarities > own[:, None]
        tied_earlier = (similarities == own[:, None]) & (index < answers[:, None])
        before += ((ahead | tied_earlier) & (index != answers[:, None])).sum(dim=1)
    return before


@dataclass(frozen=True)
class QueryScores:
    """How well each query's documents come first.

    Args:
        ndcg: nDCG@k, float64 `[queries]`.
        recall: The share of a query's documents among the first k, float64 `[queries]`.
        mrr: 1 over the rank (from 1) of the first of them, wherever it is, float64 `[queries]`.
    """

    ndcg: Tensor
    recall: Tensor
    mrr: Tensor


def query_scores(queries: Tensor, documents: Tensor, relevant: Sequence[Relevant], k: int = 10) -> QueryScores:
    """Rank the documents by cosine similarity to each query, and say how far up its own come.

    Documents with equal similarity (to 1e-9) rank in the order of their indices. Memory stays bounded whatever the
    number of queries and documents, as only relevant documents' ranks are counted.

    Args:
        queries: Query embeddings, `[queries, width]`.
        documents: Document embeddings, `[documents, width]`.
        relevant: For each query, the indices of its documents, or a mapping from them to their gains.
        k: How many of the first documents count in nDCG and recall.

    Raises:
        InputError: The shapes don't fit, `k` is below 1, or `relevant` is not as `RetrievalTask` says.

    Source:
        Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002.
    """
    _check_embeddings(queries, documents, k)
    _check_relevant(relevant, len(queries), len(documents))
    pairs = torch.tensor([(query, answer) for query, answers in enumerate(relevant) for answer in sorted(answers)])
    ranks = torch.cat(
        [
            _ranks(queries[asking], documents, answers)
            for asking, answers in zip(pairs[:, 0].split(_PAIRS), pairs[:, 1].split(_PAIRS), strict=True)
        ]
    )
    gains = torch.tensor([gain for answers in relevant for gain in _gains(answers)], dtype=torch.float64)
    found = ranks < k
    discounted = torch.where(found, gains / torch.log2(ranks.double() + 2), 0.0)
    ideal = torch.tensor([_ideal(answers, k) for answers in relevant], dtype=torch.float64)
    counts = torch.tensor([len(answers) for answers in relevant], dtype=torch.float64)
    none = torch.zeros(len(queries), dtype=torch.float64)
    return QueryScores(
        ndcg=none.index_add(0, pairs[:, 0], discounted) / ideal,
        recall=none.index_add(0, pairs[:, 0], found.double()) / counts,
        mrr=none.scatter_reduce(0, pairs[:, 0], 1 / (ranks.double() + 1), "amax"),
    )


def _gains(answers: Relevant) -> list[float]:
    return [answers[answer] if isinstance(answers, Mapping) else 1.0 for answer in sorted(answers)]


def _ideal(answers: Relevant, k: int) -> float:
    best = torch.tensor(sorted(_gains(answers), reverse=True)[:k], dtype=torch.float64)
    return (best / torch.log2(torch.arange(len(best), dtype=torch.float64) + 2)).sum().item()


def ndcg(queries: Tensor, documents: Tensor, relevant: Sequence[Relevant], k: int = 10) -> float:
    """Return the mean nDCG@k of ranking the documents by cosine similarity to each query; see `query_scores`.

    Example:
        >>> import torch
        >>> ndcg(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]), [{1}])
        1.0
    """
    return query_scores(queries, documents, relevant, k).ndcg.mean().item()
