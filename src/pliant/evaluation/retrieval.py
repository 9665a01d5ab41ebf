"""Retrieval: queries, documents, which belong together, and nDCG."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pliant.errors import InputError

# 1,024 × 8,192 float64 similarities are 64 MiB: the most that `ndcg` holds at once.
_PAIRS = 1024
_DOCUMENTS = 8192
# Equal documents get similarities that differ in the last bits, as matrix kernels sum in different orders.
_TIE = 1e-9


@dataclass(frozen=True)
class RetrievalTask:
    """Queries, documents, and the documents that answer each query.

    Args:
        queries: The queries' texts.
        documents: The documents' texts.
        relevant: For each query, the indices of its documents.

    Raises:
        InputError: There are no queries or documents, `relevant` has another length than `queries`, or a query
            has no document or one that doesn't exist.
    """

    queries: tuple[str, ...]
    documents: tuple[str, ...]
    relevant: tuple[frozenset[int], ...]

    def __post_init__(self) -> None:
        """Refuse a task that can't be scored."""
        _check_relevant(self.relevant, len(self.queries), len(self.documents))


def _check_relevant(relevant: Sequence[Set[int]], queries: int, documents: int) -> None:
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


def _check_embeddings(queries: Tensor, documents: Tensor, k: int) -> None:
    if queries.dim() != 2 or documents.dim() != 2 or queries.shape[1] != documents.shape[1]:
        raise InputError(
            f"Queries of shape {list(queries.shape)} and documents of shape {list(documents.shape)} can't be compared. "
            "Both must be [inputs, width], of one width."
        )
    if not (queries.isfinite().all() and documents.isfinite().all()):
        raise InputError("An embedding is not finite, so it has no rank. Load the model in float32.")
    if k < 1:
        raise InputError(f"k is {k}; nDCG looks at the first k documents, so it must be at least 1.")


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


def ndcg(queries: Tensor, documents: Tensor, relevant: Sequence[Set[int]], k: int = 10) -> float:
    """Return the mean nDCG@k of ranking the documents by cosine similarity to each query.

    Relevance is binary. Documents with equal similarity (to 1e-9) rank in the order of their indices. Memory stays
    bounded whatever the number of queries and documents, as only relevant documents' ranks are counted.

    Args:
        queries: Query embeddings, `[queries, width]`.
        documents: Document embeddings, `[documents, width]`.
        relevant: For each query, the indices of its documents.
        k: How many of the first documents count.

    Raises:
        InputError: The shapes don't fit, `k` is below 1, or `relevant` is not as `RetrievalTask` says.

    Source:
        Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002.

    Example:
        >>> import torch
        >>> ndcg(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]), [{1}])
        1.0
    """
    _check_embeddings(queries, documents, k)
    _check_relevant(relevant, len(queries), len(documents))
    pairs = torch.tensor([(query, answer) for query, answers in enumerate(relevant) for answer in sorted(answers)])
    gains = torch.zeros(len(queries), dtype=torch.float64)
    for asking, answers in zip(pairs[:, 0].split(_PAIRS), pairs[:, 1].split(_PAIRS), strict=True):
        ranks = _ranks(queries[asking], documents, answers)
        discounted = torch.where(ranks < k, 1 / torch.log2(ranks.double() + 2), 0.0)
        gains.index_add_(0, asking, discounted)
    ideal_by_count = (1 / torch.log2(torch.arange(k, dtype=torch.float64) + 2)).cumsum(0)
    counts = torch.tensor([min(len(answers), k) for answers in relevant])
    return (gains / ideal_by_count[counts - 1]).mean().item()
