from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from pliant.budget import Cut
from pliant.cost import Cost
from pliant.errors import InputError
from pliant.evaluation.curve import Curve
from pliant.evaluation.measure import evaluate, measure
from pliant.evaluation.metric import Metric
from pliant.evaluation.reading import Reading
from pliant.evaluation.retrieval import RetrievalTask, ndcg, query_scores
from pliant.evaluation.similarity import linear_cka, similarities
from pliant.evaluation.tasks.fidelity import Fidelity
from pliant.evaluation.tasks.task import Size

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


class Sizes:
    """Eight units, one a word: a cut forgets the last words."""

    def __init__(self) -> None:
        self.weight = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))
        self.models: dict[tuple[int, ...], Counting] = {}

    def plan(self, *, sparsity: float) -> Cut:
        return Cut((round(8 * (1 - sparsity)),))

    def at(self, *, sparsity: float) -> Counting:
        widths = self.plan(sparsity=sparsity).widths
        if widths not in self.models:
            kept = torch.arange(8) < widths[0]
            self.models[widths] = Counting(self.weight * kept[:, None] + 0.01)
        return self.models[widths]

    def cost(self, cut: Cut) -> Cost:
        return Cost(sparsity=1 - cut.widths[0] / 8, parameters=100 + cut.widths[0], macs=cut.widths[0] * 7, tokens=7)


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
    cosines = similarities(full, slim)
    assert point.value("cosine") == pytest.approx(cosines.mean().item(), abs=1e-6)
    assert point.value("worst_cosine") == pytest.approx(torch.quantile(cosines, 0.05).item(), abs=1e-6)
    assert point.value("cka") == pytest.approx(linear_cka(full, slim).value, abs=1e-6)
    searched = {
        "slim_queries": (slim[:3], full[3:]),
        "both_slim": (slim[:3], slim[3:]),
        "slim_documents": (full[:3], slim[3:]),
    }
    for mode, (queries, documents) in searched.items():
        expected = query_scores(queries, documents, TASK.relevant, 10)
        assert point.value(f"ndcg_{mode}") == pytest.approx(ndcg(queries, documents, TASK.relevant))
        assert point.value(f"recall_{mode}") == pytest.approx(expected.recall.mean().item())
        assert point.value(f"mrr_{mode}") == pytest.approx(expected.mrr.mean().item())
        assert curve.full_value(f"ndcg_{mode}") == pytest.approx(ndcg(full[:3], full[3:], TASK.relevant))
    values = {point.value(f"ndcg_{mode}") for mode in searched} | {curve.full_value("ndcg_both_slim")}
    assert len(values) >= 3
    assert (point.achieved_sparsity, point.parameters, point.macs) == (0.5, 104, 28)
    assert (curve.full_parameters, curve.full_macs, curve.tokens) == (108, 56, 7)


def test_sizes_come_ascending_and_once() -> None:
    curve = measured(Sizes(), [0.75, 0.0, 0.25, 0.75])
    assert [point.sparsity for point in curve.points] == [0.0, 0.25, 0.75]


def test_sparsity_zero_is_the_full_model_exactly_and_not_run_again() -> None:
    sizes = Sizes()
    curve = measured(sizes, [0.0, 0.01, 0.5])
    for point in curve.points[:2]:
        assert point.value("cosine") == pytest.approx(1.0, abs=1e-12)
        assert point.metrics == curve.full
    assert [model.seen for model in sizes.models.values()] == [8, 8]


def test_without_a_task_fidelity_is_of_the_texts() -> None:
    sizes = Sizes()
    curve = measured(sizes, [0.5], task=None)
    with torch.no_grad():
        full, slim = (torch.cat(counts_of(DOCUMENTS)) @ sizes.at(sparsity=s).weight for s in (0.0, 0.5))
    assert curve.points[0].value("cosine") == pytest.approx(similarities(full, slim).mean().item(), abs=1e-6)
    assert curve.metrics == tuple(curve.full) == ("cosine", "worst_cosine", "cka")
    assert curve.points[0].value("ndcg_slim_queries") is curve.full_value("ndcg_slim_queries") is None


def test_numbers_have_intervals() -> None:
    for metric in measured(Sizes(), [0.5]).points[0].metrics.values():
        assert metric.low is not None and metric.high is not None
        assert metric.low <= metric.value + 1e-9 and metric.value - 1e-9 <= metric.high


def test_progress_grows_to_the_end() -> None:
    seen: list[tuple[str, float]] = []
    measured(Sizes(), [0.0, 0.5], progress=lambda label, fraction: seen.append((label, fraction)))
    fractions = [fraction for _, fraction in seen]
    assert fractions == sorted(fractions)
    assert fractions[0] > 0
    assert fractions[-1] == 1.0
    assert [label for label, _ in seen][:2] == ["2 of 8 inputs", "4 of 8 inputs"]
    assert [label for label, _ in seen][-2:] == ["scoring 0%", "scoring 50%"]


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(InputError, match="0 sparsities"):
        measured(Sizes(), [])
    with pytest.raises(InputError, match="0 inputs"):
        measure(Sizes(), [0.5], None, [], counts_of, "mean", model="m", ranker="r", task_name="t")


def test_tasks_share_a_reading_and_every_model_sees_it_once() -> None:
    sizes, reading = Sizes(), Reading(DOCUMENTS, counts_of, "mean")
    other = Reading(QUERIES, counts_of, "mean")

    class Same:
        readings = (reading, other)

        def score(self, full: Size, slim: Size) -> dict[str, Metric]:
            return {"rows": Metric(float(len(full(reading).embeddings) + len(slim(other).embeddings)))}

    curve = evaluate(sizes, [0.5], [Fidelity(reading), Same()], model="m", ranker="r", task_name="t")
    assert [model.seen for model in sizes.models.values()] == [8, 8]
    assert curve.points[0].value("rows") == 8


def test_two_tasks_of_one_name_are_refused() -> None:
    task = Fidelity(Reading(DOCUMENTS, counts_of, "mean"))
    with pytest.raises(InputError, match="Two tasks measure 'cka'"):
        evaluate(Sizes(), [0.5], [task, task], model="m", ranker="r", task_name="t")


def test_batches_that_drop_inputs_are_refused() -> None:
    with pytest.raises(InputError, match="4 inputs for 5 items"):
        measure(
            Sizes(), [0.5], None, DOCUMENTS, lambda t: counts_of(t)[:2], "mean", model="m", ranker="r", task_name="t"
        )
