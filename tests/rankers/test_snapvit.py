from typing import Any

import pytest
import torch
from contracts.calibrations import KINDS, calibration_of
from contracts.models import by_name
from torch import Tensor

from pliant.batches import forward
from pliant.errors import InputError
from pliant.objectives import Callback
from pliant.rankers import snapvit
from pliant.rankers.calibration import Calibration
from pliant.rankers.gradients import weight_gradients
from pliant.rankers.soft_topk import hard_topk


def with_other(calibration: Calibration, **fields: Any) -> Calibration:
    return Calibration(**{**vars(calibration), **fields})


def local(calibration: Calibration) -> Tensor:
    """Mean squared gradient over a unit's weights."""
    squares = torch.stack(list(weight_gradients(calibration, lambda weight, gradient: gradient**2, salt=3))).sum(dim=0)
    weights = []
    for site in calibration.anatomy.sites:
        rows = sum(producer.parts * producer.rows * producer.inputs for producer in site.producers)
        weights += site.units * [rows + site.width * site.outputs]
    return squares / torch.tensor(weights)


@pytest.mark.parametrize("name", KINDS)
def test_local_scores_and_protected_units(name: str) -> None:
    """Without a search: the best 20 % of heads and 5 % of neurons of each site first, else by the local score."""
    calibration = calibration_of(by_name(name))
    found, expected = snapvit.scores(calibration, evaluations=0), local(calibration)
    protected = torch.zeros(len(found), dtype=torch.bool)
    for site, units in calibration.anatomy.slices():
        count = site.units // 5 if site.kind == "heads" else site.units // 20
        protected[units.start + torch.argsort(expected[units], descending=True)[:count]] = True
    torch.testing.assert_close(found[~protected], expected[~protected], rtol=1e-6, atol=0)
    assert found[protected].min() > found[~protected].max()
    assert torch.equal(torch.argsort(found[protected]), torch.argsort(expected[protected]))


def loss_of(calibration: Calibration, scores: Tensor) -> float:
    """The mean loss on the held-out inputs at the sparsities of the paper, the plain way."""
    losses = []
    with torch.no_grad(), calibration.gated(calibration.rest) as gates:
        for batch in calibration.stream.held_out:
            gates.masks = None
            target = calibration.objective.target(forward(calibration.model, batch), batch)
            for sparsity in (0.1, 0.3, 0.5, 0.6):
                gates.masks = hard_topk(scores, calibration.costs, sparsity).float()
                losses.append(calibration.objective.loss(forward(calibration.model, batch), target, batch).item())
    return sum(losses) / len(losses)


def test_the_search_returns_the_best_that_it_saw() -> None:
    calibration = calibration_of(by_name("bert"), number=8)
    seen: list[tuple[int, float]] = []
    watched = with_other(calibration, watch=lambda done, loss: seen.append((done, loss)))
    found = snapvit.scores(watched, evaluations=14)
    assert [done for done, _ in seen] == list(range(1, 15))
    assert seen[0][1] == pytest.approx(loss_of(calibration, snapvit.scores(calibration, evaluations=0)), rel=1e-5)
    assert loss_of(calibration, found) == pytest.approx(min(loss for _, loss in seen), rel=1e-5)
    assert loss_of(calibration, found) < seen[0][1]


def test_factors_are_those_of_sites() -> None:
    calibration = calibration_of(by_name("bert"), number=8)
    plain, found = (snapvit.scores(calibration, evaluations=number) for number in (0, 14))
    factors = []
    for site, units in calibration.anatomy.slices():
        ratios = found[units] / plain[units]
        rest = torch.argsort(plain[units])[: site.units - (2 if site.kind == "neurons" else 0)]
        torch.testing.assert_close(ratios[rest], ratios[rest][:1].expand(len(rest)))
        factors.append(round(ratios[rest[0]].item(), 6))
    assert len(set(factors)) == len(factors)


def test_more_evaluations_are_never_worse_and_follow_the_seed() -> None:
    calibration = calibration_of(by_name("bert"), number=8)
    losses = [loss_of(calibration, snapvit.scores(calibration, evaluations=number)) for number in (0, 5, 20)]
    assert losses == sorted(losses, reverse=True)
    again, other = (snapvit.scores(with_other(calibration, seed=seed), evaluations=12) for seed in (0, 1))
    assert torch.equal(again, snapvit.scores(calibration, evaluations=12))
    assert not torch.allclose(again, other)


def test_a_loss_that_is_not_finite() -> None:
    calibration = calibration_of(by_name("bert"))

    def loss(outputs: Any, batch: Any) -> Tensor:
        hidden = outputs["last_hidden_state"]
        return hidden.square().mean() if hidden.requires_grad else hidden.sum() * float("nan")

    with pytest.raises(InputError, match="loss of evaluation 1 is nan"):
        snapvit.scores(with_other(calibration, objective=Callback(loss)), evaluations=3)
