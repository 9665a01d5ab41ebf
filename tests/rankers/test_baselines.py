"""The one-shot criteria, each against its formula worked out the plain way."""

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch
from contracts.calibrations import calibration_of
from contracts.models import by_name, specimens
from contracts.specimen import Specimen
from torch import Tensor

from pliant.anatomy import Anatomy
from pliant.families import describe
from pliant.gates import gated
from pliant.objectives import Distillation
from pliant.rankers import fisher, magnitude, random, taylor
from pliant.rankers.calibration import Calibration, Stream, rest_values, unit_costs
from pliant.rankers.rank import SCORERS

Scorer = Callable[[Calibration], Tensor]


def encoder() -> Specimen:
    return by_name("bert")


def probe_slopes(calibration: Calibration, unit: int, step: float = 1e-2) -> list[float]:
    """Central differences of the probe of each training batch, as one unit's gate moves around one."""
    generator = calibration.generator(salt=1)
    slopes = []
    with torch.no_grad(), gated(calibration.model, calibration.anatomy, calibration.rest) as gates:
        for batch in calibration.observed():
            state = generator.get_state()
            ends = []
            for move in (step, -step):
                generator.set_state(state)
                gates.masks = torch.ones(calibration.anatomy.units)
                gates.masks[unit] += move
                outputs = calibration.model(**batch)  # pyright: ignore[reportCallIssue]
                ends.append(calibration.objective.probe(outputs, batch, generator).item())
            slopes.append((ends[0] - ends[1]) / (2 * step))
    return slopes


@pytest.mark.parametrize("unit", [0, 3, 4, 30, 47, 48, 51, 52, 95])
@pytest.mark.parametrize("rest", ["mean", "zero"])
def test_gradients_are_finite_differences(unit: int, rest: str) -> None:
    calibration = calibration_of(encoder(), rest=rest)
    slopes = torch.tensor(probe_slopes(calibration, unit), dtype=torch.float64)
    cost = calibration.costs[unit]
    assert fisher.scores(calibration)[unit].item() == pytest.approx((slopes.square().sum() / cost).item(), rel=0.03)
    assert taylor.scores(calibration)[unit].item() == pytest.approx((slopes.abs().sum() / cost).item(), rel=0.03)


@torch.no_grad()
def plain_magnitudes(model: Any, anatomy: Anatomy) -> Tensor:
    found = []
    for site in anatomy.sites:
        consumer = model.get_submodule(site.consumer).weight
        for unit in range(site.units):
            columns = slice(unit * site.width, (unit + 1) * site.width)
            parts = [
                part[unit * producer.rows : (unit + 1) * producer.rows]
                for producer in site.producers
                for part in model.get_submodule(producer.module).weight.chunk(producer.parts)
            ]
            size = torch.cat([weight.flatten() for weight in parts]).norm() * consumer[:, columns].norm()
            found.append(size / site.unit_parameters)
    return torch.stack(found)


@specimens
def test_magnitude(specimen: Specimen) -> None:
    calibration = calibration_of(specimen)
    expected = plain_magnitudes(calibration.model, calibration.anatomy)
    torch.testing.assert_close(magnitude.scores(calibration).float(), expected, rtol=1e-4, atol=0)


@pytest.mark.parametrize("scorer", [scorer for name, scorer in SCORERS.items() if name != "flap"])
def test_scores_are_finite_and_not_negative(scorer: Scorer) -> None:
    calibration = calibration_of(encoder())
    scores = scorer(calibration)
    assert scores.shape == (calibration.anatomy.units,)
    assert scores.dtype == torch.float64
    assert torch.isfinite(scores).all()
    assert (scores >= 0).all()


@pytest.mark.parametrize("scorer", [fisher.scores, taylor.scores])
def test_a_unit_that_always_rests_has_no_score(scorer: Scorer) -> None:
    """Its producer rows are zero: its activation never leaves the mean."""
    specimen = encoder()
    model = specimen.model().requires_grad_(False)
    model.encoder.layer[1].intermediate.dense.weight[5] = 0
    anatomy, batches = describe(model), specimen.batches()
    values = rest_values(model, anatomy, batches, "mean")
    costs = unit_costs(anatomy, torch.device("cpu"))
    calibration = Calibration(model, anatomy, Stream(batches), Distillation("mean"), values, costs, 0)
    scores = scorer(calibration)
    unit = anatomy.offsets[3] + 5
    assert scores[unit] < 1e-5 * scores[anatomy.offsets[3] :].median()


@pytest.mark.parametrize("scorer", [fisher.scores, taylor.scores])
def test_each_is_per_parameter(scorer: Scorer) -> None:
    from dataclasses import replace

    calibration = calibration_of(encoder())
    dearer = replace(calibration, costs=calibration.costs * 4)
    torch.testing.assert_close(scorer(dearer) * 4, scorer(calibration))


def test_random_is_uniform_and_follows_the_seed() -> None:
    one, again, other = (random.scores(calibration_of(encoder(), seed=seed)) for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert 0.35 < one.mean().item() < 0.65
    assert 0 <= one.min().item() < 0.1
    assert 0.9 < one.max().item() < 1


def test_no_more_batches_are_read_than_wanted() -> None:
    calibration = calibration_of(encoder(), number=6)
    first: list[Any] = list(islice(calibration.stream.training(), 2))
    found: list[Any] = list(calibration.observed(2))
    assert [batch["input_ids"].tolist() for batch in found] == [batch["input_ids"].tolist() for batch in first]
    assert len(list(calibration.observed())) == 24
