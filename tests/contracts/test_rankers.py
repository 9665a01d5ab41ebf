"""What each criterion must prove, on a model of which half of the units hardly matter."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from contracts.elastics import masks_of
from contracts.models import by_name
from contracts.planted import QUICK, SPECIMEN, assert_same, first, planted, ranked

from pliant.batches import Batch
from pliant.budget import Alignment, Budget, plan
from pliant.errors import InputError
from pliant.families import describe
from pliant.gates import frozen, gated
from pliant.objectives import Distillation
from pliant.rankers.rank import PRESETS, RANKERS, evaluations_of, rank
from pliant.ranking import Ranking

rankers = pytest.mark.parametrize("ranker", RANKERS)
# The units of the model are planted in what reads them, which `variance` doesn't look at.
seeing = pytest.mark.parametrize("ranker", [name for name in RANKERS if name not in ("random", "variance")])


@rankers
def test_the_same_seed_gives_the_same_ranking(ranker: str) -> None:
    torch.manual_seed(12345)
    assert_same(ranked(ranker), first(ranker))


@pytest.mark.parametrize("ranker", ["soft-mask", "fisher", "taylor", "kwon", "snip", "snapvit", "random"])
def test_another_seed_gives_another_ranking(ranker: str) -> None:
    assert not torch.equal(ranked(ranker, seed=1).scores, first(ranker).scores)


@rankers
def test_saved_and_loaded(ranker: str, tmp_path: Path) -> None:
    first(ranker).save(tmp_path / "ranking.safetensors")
    assert_same(Ranking.load(tmp_path / "ranking.safetensors"), first(ranker))


@rankers
def test_what_it_says_about_itself(ranker: str) -> None:
    ranking = first(ranker)
    assert ranking.scores.shape == (describe(SPECIMEN.model()).units,)
    assert len(set(ranking.scores.tolist())) > 0.9 * len(ranking.scores)
    assert ranking.provenance["ranker"] == ranker
    assert ranking.provenance["seed"] == 0
    assert ranking.provenance["family"] == "bert"
    ranking.check(planted()[0], describe(SPECIMEN.model()))


@rankers
def test_plans_are_nested(ranker: str) -> None:
    anatomy = describe(SPECIMEN.model())
    cuts = [plan(anatomy, first(ranker), Budget("sparsity", step / 50), Alignment(4)) for step in range(0, 38)]
    assert all(smaller.is_inside(larger) for larger, smaller in pairwise(cuts))
    assert len(set(cuts)) > 15


def held_out_loss(ranking: Ranking, sparsity: float) -> float:
    """Loss of hard masks at one sparsity on inputs that no ranker saw."""
    model, _ = planted()
    anatomy, objective = describe(model), Distillation("mean")
    masks = masks_of(anatomy, ranking, plan(anatomy, ranking, Budget("sparsity", sparsity), Alignment(1)))
    total = 0.0
    with torch.no_grad(), frozen(model), gated(model, anatomy, ranking.rest) as gates:
        for batch in SPECIMEN.batches(4, seed=99):
            gates.masks = None
            target = objective.target(model(**batch), batch)
            gates.masks = masks
            total += objective.loss(model(**batch), target, batch).item()
    return total


@seeing
def test_better_than_random_on_held_out_inputs(ranker: str) -> None:
    for sparsity in (0.3, 0.5):
        chance = [held_out_loss(ranked("random", seed=seed), sparsity) for seed in range(3)]
        assert held_out_loss(first(ranker), sparsity) < 0.5 * min(chance)


# Squared gradients alone don't show how small the weights are that `snapvit` takes them of.
@pytest.mark.parametrize("ranker", [name for name in RANKERS if name not in ("random", "variance", "snapvit")])
def test_finds_the_units_that_matter(ranker: str) -> None:
    _, matters = planted()
    anatomy, scores = describe(SPECIMEN.model()), first(ranker).scores
    for _, units in anatomy.slices():
        best = torch.argsort(scores[units], descending=True)[: int(matters[units].sum())]
        assert matters[units][best].float().mean() >= 0.8


def test_random_does_not_find_them() -> None:
    _, matters = planted()
    best = torch.argsort(first("random").scores, descending=True)[: int(matters.sum())]
    assert matters[best].float().mean() < 0.75


@rankers
def test_batches_that_are_read_once_are_as_good_as_a_list(ranker: str) -> None:
    def stream() -> Iterator[Batch]:
        yield from SPECIMEN.batches()

    assert_same(ranked(ranker, batches=stream()), first(ranker))
    assert_same(ranked(ranker, batches=tuple(SPECIMEN.batches())), first(ranker))


@rankers
def test_more_batches_than_the_first_pass_keeps(ranker: str) -> None:
    batches = [SPECIMEN.batch(seed, count=1) for seed in range(45)]
    assert_same(ranked(ranker, batches=iter(batches)), ranked(ranker, batches=batches))


@rankers
@pytest.mark.parametrize("rest", ["mean", "zero"])
def test_the_kind_of_rest(ranker: str, rest: Any) -> None:
    ranking = ranked(ranker, rest=rest)
    assert ranking.rest_kind == rest
    assert all(bool(values.any()) == (rest == "mean") for values in ranking.rest)


@rankers
def test_inputs_that_are_plain_tensors(ranker: str) -> None:
    specimen = by_name("vit")
    dicts = specimen.batches()
    found = [
        rank(specimen.model(), batches, ranker=ranker, settings=QUICK)
        for batches in (dicts, [batch["pixel_values"] for batch in dicts])
    ]
    assert torch.equal(found[0].scores, found[1].scores)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranker": "best"}, "Unknown ranker 'best'.*soft-mask.*snapvit:N"),
        ({"ranker": "snapvit:"}, "Unknown ranker 'snapvit:'"),
        ({"ranker": "snapvit:many"}, "Unknown ranker 'snapvit:many'"),
        ({"ranker": "snapvit:-5"}, "Unknown ranker 'snapvit:-5'"),
        ({"ranker": "fisher:50"}, "Unknown ranker 'fisher:50'"),
        ({"preset": "slow"}, "Unknown preset 'slow'.*fast"),
        ({"pooling": "max"}, "Unknown pooling 'max'.*mean"),
        ({"rest": "median"}, "Unknown rest 'median'.*mean, zero"),
        ({"objective": "best"}, "Unknown objective 'best'.*pooled"),
        ({"steps": 0}, "steps=0.*at least 1"),
        ({"objective": "task"}, "no loss.*labels"),
        ({"pooling": "pooler", "objective": lambda outputs, batch: "loss"}, "returned 'loss'.*scalar"),
    ],
)
def test_arguments_that_are_not_allowed(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        rank(SPECIMEN.model(), SPECIMEN.batches(), **options)


@pytest.mark.parametrize("batches", [[], SPECIMEN.batches(1), iter(SPECIMEN.batches(1))], ids=["none", "one", "stream"])
def test_too_few_batches(batches: Any) -> None:
    with pytest.raises(InputError, match="calibration batches are too few"):
        rank(SPECIMEN.model(), batches)


def test_presets_and_steps() -> None:
    assert PRESETS["fast"].steps < PRESETS["default"].steps
    seen: list[int] = []
    rank(SPECIMEN.model(), SPECIMEN.batches(), preset="fast", steps=2, watch=lambda done, loss: seen.append(done))
    assert seen == [1, 2]


@pytest.mark.parametrize(("ranker", "evaluations"), [("snapvit:0", 0), ("snapvit:7", 7), ("snapvit", 50)])
def test_evaluations(ranker: str, evaluations: int) -> None:
    seen: list[int] = []
    found = rank(SPECIMEN.model(), SPECIMEN.batches(), ranker=ranker, watch=lambda done, loss: seen.append(done))
    assert seen == list(range(1, evaluations + 1))
    assert evaluations_of(ranker) == evaluations
    assert found.provenance["ranker"] == ranker


def test_the_task_loss_ranks_a_classifier() -> None:
    specimen = by_name("bert-classifier")
    batches = [{**batch, "labels": torch.tensor([0, 2, 1])} for batch in specimen.batches()]
    found = rank(specimen.model(), batches, objective="task", settings=QUICK)
    assert found.provenance["objective"] == "task_loss"
    assert torch.isfinite(found.scores).all()
