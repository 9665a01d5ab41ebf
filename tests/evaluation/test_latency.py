from collections.abc import Callable
from dataclasses import replace

import pytest
from speed.specimens import batch, pair

from pliant.errors import InputError
from pliant.evaluation.curve import Curve
from pliant.evaluation.latency import with_latency
from pliant.machine import described


def test_every_size_and_the_full_model_are_timed(make_curve: Callable[..., Curve]) -> None:
    original, elastic = pair()
    fractions: list[float] = []
    curve = make_curve()
    found = with_latency(curve, elastic, batch(1), 9, rounds=3, progress=fractions.append)
    assert all(point.latency_ms and point.latency_ms > 0 for point in found.points)
    assert found.latency is not None and found.latency.full_ms > 0
    assert (found.latency.machine, found.latency.tokens, found.latency.rounds) == (described(original), 9, 3)
    assert fractions == [pytest.approx(turn / 3) for turn in (1, 2, 3)]
    without = replace(found, latency=None, points=tuple(replace(point, latency_ms=None) for point in found.points))
    assert without == curve


def test_inputs_that_do_not_fit_are_refused(make_curve: Callable[..., Curve]) -> None:
    _, elastic = pair()
    with pytest.raises(InputError, match="can't take these inputs"):
        with_latency(make_curve(), elastic, batch(1, "vit"), 9, rounds=1)
