import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from contracts.models import by_name
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pliant.errors import InputError
from pliant.families import describe
from pliant.gates import frozen
from pliant.objectives import Callback, Distillation, Target
from pliant.rankers.calibration import Calibration, Stream, rest_values, unit_costs
from pliant.rankers.search import Search, standardised_log
from pliant.rankers.soft_mask import SoftMask
from pliant.rankers.soft_topk import hard_topk
from pliant.ranking import Rest

SPECIMEN = by_name("bert")
QUICK = SoftMask(steps=8, judge_every=2)


def calibration_of(seed: int = 0) -> Calibration:
    model = SPECIMEN.model().requires_grad_(False)
    anatomy, batches = describe(model), SPECIMEN.batches()
    rest = rest_values(model, anatomy, batches, "mean")
    costs = unit_costs(anatomy, torch.device("cpu"))
    return Calibration(model, anatomy, Stream(batches), Distillation("mean"), rest, costs, seed)


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(0, 100))
def test_one_sparsity_from_each_stratum(step: int, count: int, seed: int) -> None:
    search = object.__new__(Search)
    search.settings = SoftMask(sparsities=count, highest=0.9)
    search.calibration = object.__new__(Calibration)
    object.__setattr__(search.calibration, "seed", seed)
    drawn = search._drawn(step)
    assert len(drawn) == count
    assert all(0.9 * stratum / count <= value < 0.9 * (stratum + 1) / count for stratum, value in enumerate(drawn))
    assert search._drawn(step) == drawn != search._drawn(step + 1)


@pytest.mark.parametrize(("kind", "rate", "moves"), [("mean", 0.1, True), ("mean", 0.0, False), ("zero", 0.1, False)])
def test_rest_values_are_learned_only_where_they_should_be(kind: Rest, rate: float, moves: bool) -> None:
    """Means are refined at the rate that is asked for; zeros stay zeros."""
    calibration = calibration_of()
    rest = rest_values(calibration.model, calibration.anatomy, SPECIMEN.batches(), kind)
    settings = replace(QUICK, rest_rate=rate, judge_every=1)
    search = Search(replace(calibration, rest=rest), settings, "test")
    search.run(None, None)
    assert all(torch.equal(now, before) != moves for now, before in zip(search.present.rest, rest, strict=True))
    assert all(torch.equal(kept, before) for kept, before in zip(calibration.rest, calibration_of().rest, strict=True))


def test_it_learns() -> None:
    """The kept scores lose less on held-out inputs than those it started from, and the best ones are kept."""
    with frozen(SPECIMEN.model()):
        search = Search(calibration_of(), SoftMask(steps=40, judge_every=5, rate=0.1, rest_rate=0, norm_rate=0), "test")
        start = search.present.scores.detach().clone()
        found = search.run(None, None)
        begin = Search(calibration_of(), QUICK, "test")
        begin.settings = replace(QUICK, steps=0)
        before = begin.run(None, None)
    assert torch.equal(before.scores, start)
    assert before.step == 0
    assert found.loss < before.loss
    assert found.step > 0
    assert found.step % 5 == 0
    assert len(found.losses) == 40
    assert all(math.isfinite(loss) for loss in found.losses)


def test_rest_values_are_learned() -> None:
    """From values that are far off, the search finds better ones, and hands over those that went with the scores."""
    calibration = calibration_of()
    far_off = tuple(rest + 3 * rest.std() for rest in calibration.rest)
    settings = SoftMask(steps=40, judge_every=5, rate=0.01, rest_rate=0.5)
    search = Search(replace(calibration, rest=far_off), settings, "test")
    found = search.run(None, None)
    begin = Search(replace(calibration, rest=far_off), replace(settings, steps=0), "test").run(None, None)
    assert found.loss < 0.8 * begin.loss
    assert not any(torch.equal(mine, before) for mine, before in zip(found.rest, far_off, strict=True))


@pytest.mark.parametrize(("kind", "rate"), [("mean", 0.0), ("zero", 0.1)])
def test_norms_are_left_alone(kind: Rest, rate: float) -> None:
    """Where nothing says so, and where the rest is zero."""
    calibration = calibration_of()
    rest = rest_values(calibration.model, calibration.anatomy, SPECIMEN.batches(), kind)
    settings = replace(QUICK, norm_rate=rate, settle=4)
    assert Search(replace(calibration, rest=rest), settings, "test").run(None, None).norms is None


def test_norms_are_learned_in_settling() -> None:
    """From rest values that are far off, norms alone find back a part of the way, at every size."""
    calibration = calibration_of()
    calibration = replace(calibration, rest=tuple(rest + 3 * rest.std() for rest in calibration.rest))
    scores = torch.randn(calibration.anatomy.units, generator=torch.Generator().manual_seed(4))
    settings = SoftMask(steps=0, settle=40, judge_every=5, rest_rate=0, norm_rate=0.02)
    begin = Search(calibration, replace(settings, settle=0), "test", scores=scores).run(None, None)
    found = Search(calibration, settings, "test", scores=scores).run(None, None)
    assert found.loss < 0.7 * begin.loss
    assert torch.equal(found.scores, scores)
    assert all(torch.equal(mine, before) for mine, before in zip(found.rest, calibration.rest, strict=True))
    assert found.norms is not None
    assert begin.norms is None
    assert found.norms.knots.tolist() == list(settings.knots)
    # Every knot, every norm, gains and biases.
    assert found.norms.values.abs().amax(dim=-1).min() > 0


def test_the_loss_is_that_of_the_cut(specimen: Any = SPECIMEN) -> None:
    """What was judged is what a view does: same units, same rest values, same norms."""
    calibration = calibration_of()
    calibration = replace(calibration, rest=tuple(rest + 3 * rest.std() for rest in calibration.rest))
    settings = SoftMask(steps=5, settle=20, judge_every=5, ladder=(0.5,), norm_rate=0.02)
    search = Search(calibration, settings, "test")
    found = search.run(None, None)
    norms = found.norms
    assert found.step > 5
    assert norms is not None
    total = 0.0
    with calibration.gated(found.rest) as gates, torch.no_grad():
        for batch in calibration.stream.held_out:
            gates.masks = gates.norms = None
            target = calibration.objective.target(specimen.call(calibration.model, batch), batch)
            gates.masks, gates.norms = hard_topk(found.scores, calibration.costs, 0.5), norms.at(0.5)
            total += calibration.objective.loss(specimen.call(calibration.model, batch), target, batch).item()
    assert total / len(calibration.stream.held_out) == pytest.approx(found.loss, rel=1e-5)


def test_the_best_scores_are_kept_even_when_it_goes_astray() -> None:
    """Steps that are far too large make things worse: the start stays the best."""
    astray = SoftMask(steps=6, judge_every=2, rate=1e4)
    search = Search(calibration_of(), astray, "test")
    start = search.present.scores.detach().clone()
    found = search.run(None, None)
    assert found.step in (0, 2, 4, 6)
    assert found.loss <= Search(calibration_of(), replace(astray, steps=0), "test").run(None, None).loss
    if found.step == 0:
        assert torch.equal(found.scores, start)


def test_judged_on_held_out_inputs_only() -> None:
    """Every judgement runs the held-out inputs once for each sparsity of the ladder."""
    calibration = calibration_of()
    held_out: list[Any] = calibration.stream.held_out
    judged: list[Tensor] = []

    class Watching(Distillation):
        def loss(self, outputs: Any, target: Target, batch: Any) -> Tensor:
            is_held_out = any(torch.equal(batch["input_ids"], kept["input_ids"]) for kept in held_out)
            assert is_held_out != torch.is_grad_enabled()
            if is_held_out:
                judged.append(batch["input_ids"])
            return super().loss(outputs, target, batch)

    Search(replace(calibration, objective=Watching("mean")), QUICK, "test").run(None, None)
    judgements = 1 + QUICK.steps // QUICK.judge_every
    assert len(judged) == judgements * len(QUICK.ladder) * len(held_out)


@pytest.mark.parametrize("steps", [5, 8, 9, 11])
def test_a_snapshot_goes_on_where_it_was_taken(steps: int) -> None:
    """In the search, between it and settling, and in that."""
    calibration = calibration_of()
    calibration = replace(calibration, rest=tuple(rest + 3 * rest.std() for rest in calibration.rest))
    settings = replace(QUICK, settle=6, norm_rate=0.01)
    whole = Search(calibration, settings, "test").run(None, None)
    half = Search(calibration, settings, "test")

    class Enough(Exception):
        pass

    def stop(done: int, loss: float) -> None:
        if done == steps:
            raise Enough

    with pytest.raises(Enough):
        half.run(None, stop)
    again = Search(calibration, settings, "test", half.snapshot()).run(None, None)
    assert torch.equal(again.scores, whole.scores)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(again.rest, whole.rest, strict=True))
    assert again.norms is not None and whole.norms is not None
    assert torch.equal(again.norms.values, whole.norms.values)
    assert again.losses == whole.losses
    assert (again.loss, again.step) == (whole.loss, whole.step)


@given(st.lists(st.floats(0, 1e30), min_size=2, max_size=30))
def test_standardised_logs(values: list[float]) -> None:
    """Finite and in the order of the values, whatever they are; centred and of unit spread where they differ."""
    logs = standardised_log(torch.tensor(values, dtype=torch.float64))
    assert torch.isfinite(logs).all()
    order = torch.argsort(torch.tensor(values, dtype=torch.float64))
    assert (logs[order].diff() >= 0).all()
    positive = [value for value in values if value > 0]
    if positive and max(positive) > 1.001 * min(positive):
        assert logs.mean().item() == pytest.approx(0, abs=1e-4)
        assert logs.std().item() == pytest.approx(1, abs=1e-3)


def test_a_loss_that_is_not_finite_ends_the_search() -> None:
    def broken(outputs: Any, batch: Any) -> Tensor:
        loss = outputs.last_hidden_state.square().mean()
        return loss * float("nan") if torch.is_grad_enabled() else loss

    calibration = calibration_of()
    search = Search(calibration, QUICK, "test")
    search.calibration = replace(calibration, objective=Callback(broken))
    with pytest.raises(InputError, match="loss of step 1 is nan"):
        search.run(None, None)
