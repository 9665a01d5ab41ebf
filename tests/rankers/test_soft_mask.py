import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from contracts.models import by_name
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pliant.families import describe
from pliant.gates import frozen
from pliant.objectives import Distillation
from pliant.rankers.calibration import Calibration, Stream, rest_values, unit_costs
from pliant.rankers.soft_mask import Search, SoftMask, standardised_log

SPECIMEN = by_name("bert")
QUICK = SoftMask(steps=8, judge_every=2)


def calibration_of(seed: int = 0) -> Calibration:
    model = SPECIMEN.model().requires_grad_(False)
    anatomy, batches = describe(model), SPECIMEN.batches()
    rest = rest_values(model, anatomy, batches, "mean")
    costs = unit_costs(anatomy, torch.device("cpu"))
    return Calibration(model, anatomy, Stream(batches), Distillation("mean"), rest, costs, seed)


def test_the_temperature_falls_geometrically() -> None:
    settings = SoftMask(steps=3, hot=4.0, cold=1.0)
    assert [settings.temperature(step) for step in range(3)] == pytest.approx([4, 2, 1])
    assert SoftMask(steps=1, hot=4.0).temperature(0) == 4.0


def test_the_rate_falls_to_a_tenth() -> None:
    settings = SoftMask(steps=100, learning_rate=2.0)
    rates = [settings.rate(step) for step in range(101)]
    assert rates[0] == pytest.approx(2)
    assert rates[50] == pytest.approx(1.1)
    assert rates[100] == pytest.approx(0.2)
    assert rates == sorted(rates, reverse=True)


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


def test_adam_is_torchs_own() -> None:
    search = Search(calibration_of(), QUICK, "test")
    reference = search.scores.detach().clone().requires_grad_()
    optimiser = torch.optim.Adam([reference], lr=1.0, betas=(0.9, 0.95), eps=1e-12)
    for step in range(8):
        gradient = torch.randn(reference.shape, generator=torch.Generator().manual_seed(step))
        optimiser.param_groups[0]["lr"] = QUICK.rate(step)
        reference.grad = gradient
        optimiser.step()
        search._adam_(gradient, step)
    torch.testing.assert_close(search.scores.detach(), reference.detach(), atol=1e-4, rtol=1e-4)


def test_it_learns() -> None:
    """The kept scores lose less on held-out inputs than those it started from, and the best ones are kept."""
    with frozen(SPECIMEN.model()):
        search = Search(calibration_of(), SoftMask(steps=40, judge_every=5, learning_rate=0.1), "test")
        start = search.scores.detach().clone()
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


def test_the_best_scores_are_kept_even_when_it_goes_astray() -> None:
    """Steps that are far too large make things worse: the start stays the best."""
    astray = SoftMask(steps=6, judge_every=2, learning_rate=1e4)
    search = Search(calibration_of(), astray, "test")
    start = search.scores.detach().clone()
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
        def loss(self, outputs: Any, target: Tensor | None, batch: Any) -> Tensor:
            is_held_out = any(torch.equal(batch["input_ids"], kept["input_ids"]) for kept in held_out)
            assert is_held_out != torch.is_grad_enabled()
            if is_held_out:
                judged.append(batch["input_ids"])
            return super().loss(outputs, target, batch)

    Search(replace(calibration, objective=Watching("mean")), QUICK, "test").run(None, None)
    judgements = 1 + QUICK.steps // QUICK.judge_every
    assert len(judged) == judgements * len(QUICK.ladder) * len(held_out)


def test_a_snapshot_goes_on_where_it_was_taken() -> None:
    whole = Search(calibration_of(), QUICK, "test").run(None, None)
    half = Search(calibration_of(), QUICK, "test")

    class Enough(Exception):
        pass

    def stop(done: int, loss: float) -> None:
        if done == 5:
            raise Enough

    with pytest.raises(Enough):
        half.run(None, stop)
    again = Search(calibration_of(), QUICK, "test", half.snapshot()).run(None, None)
    assert torch.equal(again.scores, whole.scores)
    assert again.losses == whole.losses
    assert (again.loss, again.step) == (whole.loss, whole.step)


@given(st.lists(st.floats(0, 1e30), min_size=2, max_size=30))
def test_standardised_logs(values: list[float]) -> None:
    """Finite, centred and in the order of the values, whatever they are."""
    logs = standardised_log(torch.tensor(values, dtype=torch.float64))
    assert torch.isfinite(logs).all()
    assert logs.mean().item() == pytest.approx(0, abs=1e-4)
    order = torch.argsort(torch.tensor(values, dtype=torch.float64))
    assert (logs[order].diff() >= 0).all()
    positive = [value for value in values if value > 0]
    if positive and max(positive) > 1.001 * min(positive):
        assert logs.std().item() == pytest.approx(1, abs=1e-3)
