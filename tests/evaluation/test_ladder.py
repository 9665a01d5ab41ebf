import pytest
from evaluation.sizes import EightUnits
from torch import nn

from pliant.errors import InputError
from pliant.evaluation.fidelity import Fidelity
from pliant.evaluation.ladder import Ladder


class Unbuilt(EightUnits):
    """Sizes of which none may be built."""

    def at(self, *, sparsity: float) -> nn.Module:
        raise AssertionError("a ladder builds no model")


def test_sizes_are_planned_ascending_and_once() -> None:
    ladder = Ladder.of(Unbuilt(), [0.75, 0.0, 0.25, 0.75])
    assert [(rung.sparsity, rung.cost.parameters) for rung in ladder.rungs] == [(0.0, 108), (0.25, 106), (0.75, 102)]
    assert ladder.full.parameters == 108


def test_a_size_that_keeps_every_unit_is_the_full_model() -> None:
    assert [rung.is_full for rung in Ladder.of(Unbuilt(), [0.0, 0.01, 0.5]).rungs] == [True, True, False]


def test_points_and_curves_have_the_costs_of_their_sizes() -> None:
    ladder = Ladder.of(Unbuilt(), [0.5])
    point = ladder.rungs[0].point(Fidelity(cosine=0.9, worst=0.8))
    assert (point.sparsity, point.achieved_sparsity, point.parameters, point.macs) == (0.5, 0.5, 104, 28)
    assert (point.cosine, point.worst_cosine) == (0.9, 0.8)
    curve = ladder.curve([point], model="m", ranker="r", task="t")
    assert (curve.full_parameters, curve.full_macs, curve.tokens, curve.full_ndcg) == (108, 56, 7, None)


def test_no_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="No sparsities"):
        Ladder.of(Unbuilt(), [])
