import json
from collections.abc import Callable, Sequence

import pytest
import torch
from evaluation.sizes import EightUnits
from torch import Tensor, nn

from pliant.errors import InputError
from pliant.evaluation.curve import Curve
from pliant.evaluation.fidelity import fidelity
from pliant.evaluation.retrieval import RetrievalTask, ndcg
from pliant.evaluation.texts import measure

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
QUERIES = ("alpha beta", "gamma delta delta", "epsilon")
DOCUMENTS = ("zeta eta theta", "alpha beta beta", "gamma delta", "epsilon epsilon zeta", "theta")
TASK = RetrievalTask(QUERIES, DOCUMENTS, (frozenset({1}), frozenset({2}), frozenset({3, 0})))


class Counting(nn.Module):
    """A linear map of word counts that counts the inputs it sees."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.seen = 0

    def forward(self, counts: Tensor) -> Tensor:
        self.seen += len(counts)
        return counts @ self.weight


class Sizes(EightUnits):
    """One unit a word: a cut forgets the last words."""

    def __init__(self) -> None:
        self.weight = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))
        self.models: dict[tuple[int, ...], Counting] = {}

    def at(self, *, sparsity: float) -> Counting:
        widths = self.plan(sparsity=sparsity).widths
        if widths not in self.models:
            kept = torch.arange(8) < widths[0]
            self.models[widths] = Counting(self.weight * kept[:, None] + 0.01)
        return self.models[widths]


def counts_of(texts: Sequence[str]) -> list[Tensor]:
    counts = torch.tensor([[float(text.split().count(word)) for word in WORDS] for text in texts])
    return list(counts.split(2))


def measured(
    sizes: Sizes,
    sparsities: Sequence[float],
    task: RetrievalTask | None = TASK,
    progress: Callable[[str, float], None] | None = None,
) -> Curve:
    return measure(
        sizes, sparsities, task, DOCUMENTS, counts_of, "mean", model="m", ranker="r", task_name="t", progress=progress
    )


def test_points_are_what_the_parts_give_directly() -> None:
    sizes = Sizes()
    curve = measured(sizes, [0.5])
    with torch.no_grad():
        full, slim = (torch.cat(counts_of(QUERIES + DOCUMENTS)) @ sizes.at(sparsity=s).weight for s in (0.0, 0.5))
    point = curve.points[0]
    assert point.cosine == pytest.approx(fidelity(full, slim).cosine, abs=1e-6)
    assert point.worst_cosine == pytest.approx(fidelity(full, slim).worst, abs=1e-6)
    assert point.ndcg_slim_queries == pytest.approx(ndcg(slim[:3], full[3:], TASK.relevant))
    assert point.ndcg_both_slim == pytest.approx(ndcg(slim[:3], slim[3:], TASK.relevant))
    assert curve.full_ndcg == pytest.approx(ndcg(full[:3], full[3:], TASK.relevant))
    assert len({point.ndcg_slim_queries, point.ndcg_both_slim, curve.full_ndcg}) == 3
    assert (point.achieved_sparsity, point.parameters, point.macs) == (0.5, 104, 28)
    assert (curve.full_parameters, curve.full_macs, curve.tokens) == (108, 56, 7)


def test_sizes_come_ascending_and_once() -> None:
    curve = measured(Sizes(), [0.75, 0.0, 0.25, 0.75])
    assert [point.sparsity for point in curve.points] == [0.0, 0.25, 0.75]


def test_sparsity_zero_is_the_full_model_exactly_and_not_run_again() -> None:
    sizes = Sizes()
    curve = measured(sizes, [0.0, 0.01, 0.5])
    for point in curve.points[:2]:
        assert point.cosine == pytest.approx(1.0, abs=1e-12)
        assert point.ndcg_slim_queries == point.ndcg_both_slim == curve.full_ndcg
    assert [model.seen for model in sizes.models.values()] == [8, 8]


def test_without_a_task_fidelity_is_of_the_texts() -> None:
    sizes = Sizes()
    curve = measured(sizes, [0.5], task=None)
    with torch.no_grad():
        full, slim = (torch.cat(counts_of(DOCUMENTS)) @ sizes.at(sparsity=s).weight for s in (0.0, 0.5))
    assert curve.points[0].cosine == pytest.approx(fidelity(full, slim).cosine, abs=1e-6)
    assert curve.full_ndcg is None
    assert curve.points[0].ndcg_slim_queries is None
    assert curve.points[0].ndcg_both_slim is None


def test_progress_grows_to_the_end() -> None:
    seen: list[tuple[str, float]] = []
    measured(Sizes(), [0.0, 0.5], progress=lambda label, fraction: seen.append((label, fraction)))
    fractions = [fraction for _, fraction in seen]
    assert fractions == sorted(fractions)
    assert fractions[0] > 0
    assert fractions[-1] == 1.0
    assert list(dict.fromkeys(label for label, _ in seen)) == ["full model", "sparsity 0%", "sparsity 50%"]


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(InputError, match="No sparsities"):
        measured(Sizes(), [])
    with pytest.raises(InputError, match="no texts"):
        measure(Sizes(), [0.5], None, [], counts_of, "mean", model="m", ranker="r", task_name="t")


@pytest.mark.parametrize("task", [TASK, None])
def test_json_round_trip(task: RetrievalTask | None) -> None:
    curve = measured(Sizes(), [0.0, 0.5], task=task)
    assert Curve.from_json(json.loads(json.dumps(curve.to_json(), allow_nan=False))) == curve
