import copy
from dataclasses import replace
from typing import Any

import pytest
from speed.specimens import batch, pair
from torch import nn

from pliant.budget import Alignment, Cut
from pliant.elastic import Elastic
from pliant.errors import BudgetError, InputError
from pliant.machine import described
from pliant.speed import Speed, measure, times_of

SIZES = (0.0, 0.3, 0.6)


def timed_pair(latency_ms: tuple[float, ...] = (10.0, 6.0, 2.0)) -> Elastic:
    """A tiny elastic model that has measured times, which are then set to round numbers."""
    original, elastic = pair()
    found = measured(original, elastic)
    times = times_of(found, elastic, margin=0.0)
    elastic.use_times_(replace(times, latency_ms=latency_ms, batch_ms=tuple(4 * time for time in latency_ms)))
    return elastic


def measured(original: nn.Module, elastic: Elastic, counts: tuple[int, ...] = (1, 4)) -> Speed:
    batches = [batch(count) for count in counts]
    return measure(elastic, original, batches, SIZES, model="tiny", tokens=9, rounds=1, switches=0)


def test_times_are_those_of_the_views() -> None:
    original, elastic = pair()
    speed = measured(original, elastic)
    times = times_of(speed, elastic, margin=0.2)
    assert (times.sparsities, times.tokens, times.batch_size, times.margin) == (SIZES, 9, 4, 0.2)
    assert times.machine == described(original)
    assert times.widths == tuple(elastic.plan(sparsity=size).widths for size in SIZES)
    assert sum(times.latency_ms) == pytest.approx(sum(size.timing(1).p50_ms for size in speed.of("view")))
    assert sum(times.batch_ms) == pytest.approx(sum(size.timing(4).p50_ms for size in speed.of("view")))
    with pytest.raises(InputError, match="Time 1 too"):
        times_of(measured(original, elastic, (2, 4)), elastic)


@pytest.mark.parametrize(("asked", "sparsity"), [(10.0, 0.0), (100, 0.0), (6.0, 0.3), (4.0, 0.45), (2.0, 0.6)])
def test_a_budget_of_time_is_the_sparsity_that_meets_it(asked: float, sparsity: float) -> None:
    elastic = timed_pair()
    assert elastic.plan(latency_ms=asked) == elastic.plan(sparsity=sparsity)
    assert elastic.at(latency_ms=asked, tokens=9) is elastic.at(sparsity=sparsity)
    assert elastic.at(throughput=1000 / asked) is elastic.at(sparsity=sparsity)
    expected = sum(parameter.numel() for parameter in elastic.cut(sparsity=sparsity).parameters())
    assert sum(parameter.numel() for parameter in elastic.cut(latency_ms=asked).parameters()) == expected


def test_what_cannot_be_met_or_means_nothing() -> None:
    elastic = timed_pair()
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"latency_ms": 1.9}, "latency_ms=1.9 can't be met"),
        ({"latency_ms": 0}, "is not positive"),
        ({"throughput": float("nan")}, "is no finite number"),
        ({"latency_ms": 3, "tokens": 8}, "measured with 9"),
        ({"latency_ms": 3, "sparsity": 0.5}, "given: sparsity, latency_ms"),
        ({"throughput": 3, "latency_ms": 3}, "given: latency_ms, throughput"),
    )
    for asked, named in refused:
        with pytest.raises(BudgetError, match=named):
            elastic.at(**asked)


def test_without_times_there_are_no_such_budgets() -> None:
    _, elastic = pair()
    for asked in ({"latency_ms": 3}, {"throughput": 3}):
        with pytest.raises(BudgetError, match="needs measured times, and there are none"):
            elastic.at(**asked)


def test_times_of_another_machine_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    elastic = timed_pair()
    monkeypatch.setattr("pliant.elastic.described", lambda model: "Another (cuda), bfloat16")
    with pytest.raises(BudgetError, match=r"the model is on Another \(cuda\), bfloat16, where they say nothing"):
        elastic.at(latency_ms=3)
    assert isinstance(elastic.plan(sparsity=0.5), Cut)


def test_times_of_other_cuts_are_refused() -> None:
    times = timed_pair()._planner.times
    _, other = pair()
    fine = Elastic(pair().original, other.ranking, alignment=Alignment(neurons=1))
    fine.use_times_(times)
    with pytest.raises(BudgetError, match="times are of other cuts"):
        fine.at(latency_ms=3)


def test_copies_keep_their_times_and_new_maps_give_them_up() -> None:
    elastic = timed_pair()
    assert copy.deepcopy(elastic).plan(latency_ms=6) == elastic.plan(latency_ms=6)
    elastic.use_output_maps_(None)
    with pytest.raises(BudgetError, match="there are none"):
        elastic.plan(latency_ms=6)
    other = timed_pair()
    other.at(latency_ms=6)
    other.use_times_(None)
    with pytest.raises(BudgetError, match="there are none"):
        other.at(latency_ms=6)
