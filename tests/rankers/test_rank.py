from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from contracts.models import by_name
from contracts.specimen import spread
from hypothesis import given
from hypothesis import strategies as st

from pliant.batches import Batch
from pliant.errors import ArtefactError, InputError
from pliant.families import describe
from pliant.rankers.rank import RANKERS, SCORERS, _digest, _scaled, rank
from pliant.rankers.soft_mask import SoftMask
from pliant.ranking import Ranking


def test_every_scorer_is_a_ranker() -> None:
    assert set(RANKERS) == {"soft-mask", *SCORERS}


@given(st.lists(st.floats(-1e100, 1e100, allow_subnormal=False), min_size=1, max_size=20))
def test_scaling_keeps_the_order(values: list[float]) -> None:
    scores = torch.tensor(values, dtype=torch.float64)
    scaled = _scaled(scores)
    assert scaled.dtype == torch.float32
    assert torch.isfinite(scaled).all()
    assert (scaled[torch.argsort(scores)].diff() >= 0).all()
    assert scaled.abs().max().item() in (0.0, 1.0)


def test_small_scores_do_not_vanish() -> None:
    scaled = _scaled(torch.tensor([1e-60, 2e-60, 3e-60], dtype=torch.float64))
    assert len(set(scaled.tolist())) == 3


def test_the_digest_sees_names_types_shapes_and_values() -> None:
    batch = {"a": torch.zeros(2, 3), "b": torch.ones(2)}
    same = _digest([{"b": torch.ones(2), "a": torch.zeros(2, 3)}])
    assert _digest([batch]) == same
    changed: tuple[list[Batch], ...] = (
        [{**batch, "a": torch.zeros(3, 2)}],
        [{**batch, "a": torch.zeros(2, 3).double()}],
        [{**batch, "b": torch.tensor([1.0, 1.001])}],
        [batch, batch],
    )
    assert len({same, *map(_digest, changed)}) == 1 + len(changed)


def test_all_rankers_share_rest_values_and_fingerprint() -> None:
    specimen = by_name("bert")
    found: list[Ranking] = [rank(specimen.model(), specimen.batches(), ranker=ranker, steps=1) for ranker in RANKERS]
    for other in found[1:]:
        assert other.fingerprint == found[0].fingerprint
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(other.rest, found[0].rest, strict=True))


def test_a_baseline_keeps_its_order_and_learns_what_compensates(tmp_path: Path) -> None:
    specimen, checkpoint = by_name("bert"), tmp_path / "search.safetensors"
    plain = rank(specimen.model(), specimen.batches(), ranker="fisher", objective=spread)
    settings = SoftMask(steps=12, judge_every=1, norm_rate=0.001)

    class Stopped(Exception):
        pass

    def stop(done: int, loss: float) -> None:
        if done == 7:
            raise Stopped

    def learned(**others: Any) -> Ranking:
        return rank(
            specimen.model(),
            specimen.batches(),
            ranker="fisher",
            objective=spread,
            compensation="learned",
            settings=settings,
            **others,
        )

    found = learned()
    assert torch.equal(found.scores, plain.scores)
    assert found.norms is not None
    assert plain.norms is None
    assert (found.provenance["compensation"], plain.provenance["compensation"]) == ("learned", "measured")
    assert found.provenance["best_step"] > 0
    assert (found.provenance["settings"]["steps"], found.provenance["settings"]["settle"]) == (0, 12)
    with pytest.raises(Stopped):
        learned(checkpoint=checkpoint, watch=stop)
    again = learned(checkpoint=checkpoint, resume=True)
    assert again.norms is not None
    assert torch.equal(again.norms.values, found.norms.values)
    assert torch.equal(again.scores, found.scores)


def test_the_method_without_its_compensation() -> None:
    """With measured compensation there are no norms, and rest values are the means that every baseline has."""
    specimen = by_name("bert")
    found = rank(specimen.model(), specimen.batches(), compensation="measured", steps=9)
    means = rank(specimen.model(), specimen.batches(), ranker="random")
    assert found.norms is None
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(found.rest, means.rest, strict=True))


@pytest.mark.parametrize(
    ("wishes", "named"),
    [
        ({"compensation": "maps"}, "Unknown compensation 'maps'. Allowed: measured, learned"),
        ({"compensation": "learned", "rest": "zero"}, "rest='zero'.*Use rest='mean'"),
    ],
)
def test_compensation_that_cannot_be(wishes: dict[str, Any], named: str) -> None:
    specimen = by_name("bert")
    with pytest.raises(InputError, match=named):
        rank(specimen.model(), specimen.batches(), steps=1, **wishes)


def test_bfloat16_ranks_much_as_float32_does() -> None:
    specimen = by_name("bert")
    for ranker in ("fisher", "magnitude"):
        scores = [
            rank(model, specimen.batches(), ranker=ranker).scores
            for model in (specimen.model(), specimen.model().bfloat16())
        ]
        ranks = [torch.argsort(torch.argsort(values)).double() for values in scores]
        assert torch.corrcoef(torch.stack(ranks))[0, 1] > 0.97


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["bert", "vit", "dinov2"])
def test_sixteen_bits_are_searched_with_float32_scores(name: str, dtype: torch.dtype) -> None:
    specimen = by_name(name)
    full, model = specimen.model(), specimen.model().to(dtype)
    settings = SoftMask(steps=12, judge_every=4)
    found = [rank(each, specimen.batches(), settings=settings) for each in (full, model)]
    assert found[1].scores.dtype == torch.float32
    assert all(rest.dtype == torch.float32 for rest in found[1].rest)
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    assert found[1].provenance["dtype"] == str(dtype).removeprefix("torch.")
    assert found[1].provenance["held_out_loss"] == pytest.approx(found[0].provenance["held_out_loss"], rel=0.05)
    ranks = [torch.argsort(torch.argsort(ranking.scores)).double() for ranking in found]
    assert torch.corrcoef(torch.stack(ranks))[0, 1] > 0.9
    found[1].check(full, describe(full))


def test_small_gradients_do_not_vanish_in_float16() -> None:
    """A loss whose gradients at the activations are below what float16 can hold."""
    specimen = by_name("bert")

    def faint(outputs: Any, batch: Any) -> torch.Tensor:
        return 3e-6 * spread(outputs, batch).float()

    model = specimen.model()
    scores = [rank(each, specimen.batches(), ranker="fisher", objective=faint).scores for each in (model, model.half())]
    assert (scores[1] > 0).all()
    ranks = [torch.argsort(torch.argsort(values)).double() for values in scores]
    assert torch.corrcoef(torch.stack(ranks))[0, 1] > 0.97


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_gradients_that_are_switched_off(off: Any) -> None:
    specimen = by_name("bert")
    expected = rank(specimen.model(), specimen.batches(), steps=2)
    model = specimen.model()
    with off():
        assert torch.equal(rank(model, specimen.batches(), steps=2).scores, expected.scores)


@pytest.mark.parametrize(
    "options",
    [{"seed": "0"}, {"seed": None}, {"seed": 1.5}, {"steps": "3"}, {"steps": 2.5}, {"settings": {"steps": 2}}],
    ids=str,
)
def test_options_of_other_types(options: dict[str, Any]) -> None:
    specimen = by_name("bert")
    with pytest.raises(InputError):
        rank(specimen.model(), specimen.batches(), **options)


def test_integers_of_numpy() -> None:
    specimen = by_name("bert")
    made = rank(specimen.model(), specimen.batches(), seed=numpy.int64(3), steps=numpy.int64(1))  # pyright: ignore[reportArgumentType]
    assert type(made.provenance["seed"]) is int


@pytest.mark.parametrize(
    ("batch", "named"),
    [
        ({"input_ids": torch.full((4, 9), 10_000)}, "can't take the calibration batch"),
        ({"input_ids": torch.zeros(4, 999, dtype=torch.long)}, "can't take the calibration batch"),
        ({"input_ids": torch.zeros(4, 9)}, "can't take the calibration batch"),
        ({"input_ids": torch.zeros(0, 9, dtype=torch.long)}, "holds no input"),
    ],
    ids=["words", "length", "type", "empty"],
)
def test_batches_that_the_model_cannot_take(batch: dict[str, torch.Tensor], named: str) -> None:
    with pytest.raises(InputError, match=named):
        rank(by_name("bert").model(), [batch] * 4)


def test_words_for_a_model_of_images() -> None:
    with pytest.raises(InputError, match="can't take the calibration batch"):
        rank(by_name("vit").model(), [{"input_ids": torch.zeros(4, 9, dtype=torch.long)}] * 4)


def test_no_pooling_is_not_the_usual_one() -> None:
    with pytest.raises(InputError, match="Unknown pooling ''"):
        rank(by_name("bert").model(), by_name("bert").batches(), pooling="")


def test_batches_that_are_none() -> None:
    with pytest.raises(InputError, match="not several batches"):
        rank(by_name("bert").model(), 5)  # pyright: ignore[reportArgumentType]


def test_an_objective_without_gradient() -> None:
    specimen = by_name("bert")
    with pytest.raises(InputError, match="without gradient"):
        rank(specimen.model(), specimen.batches(), objective=lambda outputs, batch: torch.tensor(1.0))


def test_a_checkpoint_that_is_a_directory(tmp_path: Path) -> None:
    specimen = by_name("bert")
    with pytest.raises(ArtefactError, match="damaged"):
        rank(specimen.model(), specimen.batches(), steps=1, checkpoint=tmp_path, resume=True)


def test_the_familys_objective_is_the_default() -> None:
    names = {
        name: rank(by_name(name).model(), by_name(name).batches(), ranker="magnitude").provenance["objective"]
        for name in ("bert", "dinov2")
    }
    assert names == {"bert": "distillation of mean", "dinov2": "distillation of cls and tokens"}
