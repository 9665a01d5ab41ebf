import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.errors import ArtefactError, BudgetError, InputError
from pliant.times import TIMES, Times, falling

HERE = "A Processor (cpu, 2 threads), float32"
LADDER = Times(
    machine=HERE,
    tokens=128,
    batch_size=8,
    sparsities=(0.0, 0.4, 0.8),
    widths=((4, 48), (2, 32), (1, 8)),
    latency_ms=(10.0, 6.0, 2.0),
    batch_ms=(80.0, 40.0, 20.0),
    margin=0.25,
)

times = st.lists(st.floats(0.01, 1e4), min_size=1, max_size=12)


@given(times)
def test_a_fit_never_rises_and_keeps_the_mean(values: list[float]) -> None:
    fitted = falling(values)
    assert all(after <= before for before, after in pairwise(fitted))
    assert sum(fitted) == pytest.approx(sum(values))
    assert falling(fitted) == pytest.approx(fitted)


@given(times, st.lists(st.floats(0.01, 1e4), min_size=12, max_size=12))
def test_no_other_falling_values_are_nearer(values: list[float], others: list[float]) -> None:
    other = sorted(others[: len(values)], reverse=True)
    fitted = falling(values)

    def distance(found: list[float]) -> float:
        return sum((one - two) ** 2 for one, two in zip(found, values, strict=True))

    assert distance(fitted) <= distance(other) * (1 + 1e-9) + 1e-6


def test_a_budget_is_met_with_the_margin_by_the_largest_size() -> None:
    assert LADDER.sparsity("latency_ms", 12.5) == 0.0
    assert LADDER.sparsity("latency_ms", 7.5) == pytest.approx(0.4)
    assert LADDER.sparsity("latency_ms", 1.25 * 8) == pytest.approx(0.2)
    assert LADDER.sparsity("latency_ms", 2.5) == pytest.approx(0.8)
    assert LADDER.sparsity("throughput", 8 / 0.080 / 1.25) == 0.0
    assert LADDER.sparsity("throughput", 8 / 0.030 / 1.25) == pytest.approx(0.6)


@given(st.floats(2.6, 20), st.floats(0, 1))
def test_a_tighter_budget_never_gives_a_larger_model(limit: float, share: float) -> None:
    tighter = max(2.6, limit * share)
    looser = LADDER.sparsity("latency_ms", limit)
    assert LADDER.sparsity("latency_ms", tighter) >= looser
    time = 10 - 10 * looser
    assert time * 1.25 <= limit * (1 + 1e-9)


def test_noise_is_levelled_out() -> None:
    noisy = replace(LADDER, latency_ms=(6.0, 8.0, 2.0), margin=0.0)
    assert noisy.latency_ms == (7.0, 7.0, 2.0)
    assert noisy.sparsity("latency_ms", 7.0) == 0.0 and noisy.sparsity("latency_ms", 6.9) > 0.4


def test_what_is_too_slow_says_how_far_one_can_go() -> None:
    with pytest.raises(BudgetError, match=r"latency_ms=2 can't be met: .* 0\.8, has 2\.5 with the margin of 25%"):
        LADDER.sparsity("latency_ms", 2)
    with pytest.raises(BudgetError, match=r"throughput=1000 can't be met: .* has 320 with"):
        LADDER.sparsity("throughput", 1000)
    assert LADDER.sparsity("throughput", 319.9) <= 0.8


def test_other_machines_and_lengths_are_refused() -> None:
    LADDER.check_machine(HERE)
    with pytest.raises(BudgetError, match=r"measured on A Processor \(cpu, 2 threads\), float32, but .* on another"):
        LADDER.check_machine("another")
    LADDER.check_tokens(None)
    LADDER.check_tokens(128)
    with pytest.raises(BudgetError, match="tokens=64, but times were measured with 128"):
        LADDER.check_tokens(64)


@pytest.mark.parametrize(
    "changes",
    [
        {"sparsities": (), "widths": (), "latency_ms": (), "batch_ms": ()},
        {"sparsities": (0.0, 0.8, 0.4)},
        {"sparsities": (0.0, 0.4)},
        {"latency_ms": (1.0, 0.0, 1.0)},
        {"batch_ms": (1.0, float("nan"), 1.0)},
        {"batch_ms": (1.0, float("inf"), 1.0)},
        {"tokens": 0},
        {"margin": -0.1},
        {"margin": float("nan")},
    ],
)
def test_times_that_mean_nothing(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        replace(LADDER, **changes)


def test_they_are_kept_in_a_directory(tmp_path: Path) -> None:
    assert Times.load(tmp_path) is None
    LADDER.save(tmp_path)
    assert Times.load(tmp_path) == LADDER
    replace(LADDER, tokens=7).save(tmp_path)
    assert Times.load(tmp_path) == replace(LADDER, tokens=7)
    assert [file.name for file in tmp_path.iterdir()] == [TIMES]


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"sparsities": "many"},
        {"latency_ms": [1.0]},
        {"latency_ms": [1.0, None, 0.5]},
        {"widths": [[1], 2, [3]]},
        {"tokens": "many"},
        {"machine": None},
        None,
    ],
)
def test_a_damaged_file_is_refused(change: dict[str, Any] | None, tmp_path: Path) -> None:
    LADDER.save(tmp_path)
    data = json.loads((tmp_path / TIMES).read_text("utf-8"))
    content = "{" if change is None else json.dumps({**data, **change})
    (tmp_path / TIMES).write_text(content)
    with pytest.raises(ArtefactError, match=r"pliant\.times\.json can't be used"):
        Times.load(tmp_path)
    del data["margin"]
    (tmp_path / TIMES).write_text(json.dumps(data))
    with pytest.raises(ArtefactError, match="margin"):
        Times.load(tmp_path)
