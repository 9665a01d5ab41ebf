import math
from collections.abc import Sequence, Set

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.errors import InputError
from pliant.evaluation import retrieval
from pliant.evaluation.retrieval import RetrievalTask, ndcg, query_scores


def naive_ndcg(queries: np.ndarray, documents: np.ndarray, relevant: Sequence[Set[int]], k: int) -> float:
    """nDCG by sorting whole lists, one query at a time."""
    total = 0.0
    for query, answers in zip(queries, relevant, strict=True):
        cosines = [float(query @ doc / max(np.linalg.norm(query) * np.linalg.norm(doc), 1e-12)) for doc in documents]
        order = sorted(range(len(documents)), key=lambda i: (-round(cosines[i], 9), i))[:k]
        gain = sum(1 / math.log2(rank + 2) for rank, i in enumerate(order) if i in answers)
        total += gain / sum(1 / math.log2(rank + 2) for rank in range(min(k, len(answers))))
    return total / len(relevant)


def test_hand_computed_value() -> None:
    # Documents at 0, 30, 60 and 90 degrees: the query at 0 ranks them in this order.
    angles = torch.deg2rad(torch.tensor([0.0, 30.0, 60.0, 90.0]))
    documents = torch.stack([angles.cos(), angles.sin()], dim=1)
    query = torch.tensor([[5.0, 0.0]])
    # Ranks 2 and 4 are relevant: (1/log2 3 + 1/log2 5) / (1 + 1/log2 3) = 1.061606 / 1.630930
    assert ndcg(query, documents, [{1, 3}]) == pytest.approx(0.650921, abs=1e-6)
    # Of the first three only rank 2 is relevant.
    assert ndcg(query, documents, [{1, 3}], k=3) == pytest.approx(0.630930 / 1.630930, abs=1e-6)


def test_hand_computed_recall_and_reciprocal_rank() -> None:
    angles = torch.deg2rad(torch.tensor([0.0, 30.0, 60.0, 90.0]))
    documents = torch.stack([angles.cos(), angles.sin()], dim=1)
    queries = torch.tensor([[5.0, 0.0], [0.0, 1.0]])
    # The first query finds its documents at ranks 2 and 4, the second its only one at rank 3.
    found = query_scores(queries, documents, [{1, 3}, {1}], k=2)
    assert found.recall.tolist() == [0.5, 0.0]
    assert found.mrr.tolist() == pytest.approx([1 / 2, 1 / 3])


@pytest.mark.parametrize("k", [1, 5, 40])
def test_graded_relevance_agrees_with_scikit_learn(k: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(k)
    queries, documents = random.standard_normal((7, 5)), random.standard_normal((23, 5))
    gains = random.integers(0, 4, (7, 23))
    gains[:, 0] = 1
    relevant = [{int(i): float(row[i]) for i in row.nonzero()[0]} for row in gains]
    found = query_scores(torch.from_numpy(queries), torch.from_numpy(documents), relevant, k)
    lengths = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(documents, axis=1)
    for query, similarities in enumerate(queries @ documents.T / lengths):
        expected = metrics.ndcg_score(gains[query : query + 1], similarities[None], k=k)
        assert found.ndcg[query].item() == pytest.approx(expected)
        order = similarities.argsort()[::-1]
        hits = gains[query][order] > 0
        assert found.recall[query].item() == pytest.approx(hits[:k].sum() / hits.sum())
        assert found.mrr[query].item() == pytest.approx(1 / (1 + hits.argmax()))


def test_perfect_and_hopeless_rankings() -> None:
    documents = torch.eye(12)
    assert ndcg(documents, documents, [{i} for i in range(12)]) == 1.0
    assert ndcg(torch.ones(1, 12), documents, [{11}]) == 0.0


def test_equal_documents_rank_by_index() -> None:
    document = torch.randn(1, 384)
    documents = document.repeat(37, 1)
    for answer, expected in [(0, 1.0), (1, 1 / math.log2(3)), (9, 1 / math.log2(11)), (10, 0.0), (36, 0.0)]:
        assert ndcg(torch.randn(1, 384), documents, [{answer}]) == pytest.approx(expected)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 30),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["normal", "coarse"]),
)
def test_agrees_with_the_naive_way(queries: int, documents: int, k: int, seed: int, kind: str) -> None:
    random = np.random.default_rng(seed)
    # Coarse values give many exact ties.
    draw = random.standard_normal if kind == "normal" else lambda shape: random.integers(-1, 2, shape).astype(float)
    asked, held = draw((queries, 3)), draw((documents, 3))
    relevant = [set(random.choice(documents, random.integers(1, documents + 1)).tolist()) for _ in range(queries)]
    found = ndcg(torch.from_numpy(asked), torch.from_numpy(held), relevant, k)
    assert found == pytest.approx(naive_ndcg(asked, held, relevant, k), abs=1e-9)


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    queries, documents = torch.randn(50, 4), torch.randn(90, 4)
    relevant = [{i, (7 * i) % 90} for i in range(50)]
    whole = ndcg(queries, documents, relevant)
    monkeypatch.setattr(retrieval, "_PAIRS", 7)
    monkeypatch.setattr(retrieval, "_DOCUMENTS", 11)
    assert ndcg(queries, documents, relevant) == pytest.approx(whole, abs=1e-12)
    assert 0 < whole < 1


@pytest.mark.parametrize(
    ("queries", "documents", "relevant", "message"),
    [
        ((), ("a",), (), "0 queries"),
        (("q",), (), (frozenset({0}),), "0 documents"),
        (("q",), ("a",), (), "one set per query"),
        (("q",), ("a",), (frozenset(),), "Query 0 has no relevant"),
        (("q",), ("a",), (frozenset({1}),), "document 1; documents are numbered 0 to 0"),
        (("q",), ("a",), (frozenset({-1}),), "document -1"),
        (("q",), ("a",), ({0: 0.0},), "a gain of 0.0"),
    ],
)
def test_tasks_that_cannot_be_scored_are_refused(
    queries: tuple[str, ...],
    documents: tuple[str, ...],
    relevant: tuple[frozenset[int] | dict[int, float], ...],
    message: str,
) -> None:
    with pytest.raises(InputError, match=message):
        RetrievalTask(queries, documents, relevant)
    with pytest.raises(InputError, match=message):
        ndcg(torch.ones(len(queries), 2), torch.ones(len(documents), 2), relevant)


def test_embeddings_without_a_rank_are_refused() -> None:
    good, broken = torch.ones(1, 2), torch.tensor([[1.0, float("nan")]])
    with pytest.raises(InputError, match="not finite"):
        ndcg(broken, good, [{0}])
    with pytest.raises(InputError, match="not finite"):
        ndcg(good, broken, [{0}])
    with pytest.raises(InputError, match="one width"):
        ndcg(good, torch.ones(1, 3), [{0}])
    with pytest.raises(InputError, match="k is 0"):
        ndcg(good, good, [{0}], k=0)
