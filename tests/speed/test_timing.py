import gc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from speed.specimens import Noting
from torch import nn

from pliant.errors import InputError
from pliant.speed.timing import WARM_UP, interleaved, percentile


def test_models_take_turns_and_the_first_turns_do_not_count() -> None:
    notes: list[str] = []
    models = {name: Noting(name, notes) for name in "abc"}
    fractions: list[float] = []
    taken = interleaved(models, torch.zeros(1), rounds=20, watch=fractions.append)
    assert {name: len(seconds) for name, seconds in taken.items()} == {"a": 20, "b": 20, "c": 20}
    turns = [notes[start : start + 3] for start in range(0, len(notes), 3)]
    assert len(turns) == 20 + WARM_UP and all(sorted(turn) == ["a", "b", "c"] for turn in turns)
    assert len({tuple(turn) for turn in turns}) > 3
    assert fractions == [pytest.approx((turn + 1) / 20) for turn in range(20)]
    assert all(seconds >= 0 for of_one in taken.values() for seconds in of_one)


@pytest.mark.parametrize(("limit", "turns"), [(0.0, 10), (1e9, 200)])
def test_the_number_of_turns_follows_the_time_that_they_may_take(limit: float, turns: int) -> None:
    assert len(interleaved({"a": Noting("a", [])}, torch.zeros(1), limit=limit)["a"]) == turns


def test_no_garbage_is_collected_meanwhile() -> None:
    enabled: list[bool] = []

    class Asking(Noting):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            enabled.append(gc.isenabled())
            return values

    interleaved({"a": Asking("a", [])}, torch.zeros(1), rounds=2)
    assert enabled == [False] * (2 + WARM_UP) and gc.isenabled()


def test_what_cannot_be_timed_is_refused() -> None:
    with pytest.raises(InputError, match="0 models"):
        interleaved({}, torch.zeros(1))
    with pytest.raises(InputError, match="0 turns"):
        interleaved({"a": Noting("a", [])}, torch.zeros(1), rounds=0)
    with pytest.raises(InputError, match="can't take these inputs: mat1 and mat2"):
        interleaved({"a": nn.Linear(3, 3)}, torch.zeros(1, 2), rounds=1)
    assert gc.isenabled()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.floats(0.01, 1))
def test_a_percentile_is_the_least_value_that_its_share_does_not_exceed(values: list[float], share: float) -> None:
    found = percentile(values, share)
    below = sum(value <= found for value in values)
    assert found in values and below >= share * len(values) - 1e-6
    assert all(sum(value <= less for value in values) < share * len(values) + 1e-6 for less in values if less < found)
