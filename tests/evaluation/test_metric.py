import math

import numpy as np
import pytest
import torch

from pliant.errors import InputError
from pliant.evaluation.metric import Metric, bootstrapped, mean_metric


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution() -> None:
    values = torch.randn(400, dtype=torch.float64)
    found = mean_metric(values)
    error = values.std().item() / math.sqrt(400)
    assert found.value == pytest.approx(values.mean().item())
    assert found.margin == pytest.approx(1.96 * error, rel=0.1)


def test_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = torch.rand(60, dtype=torch.float64) ** 3
    found = bootstrapped(lambda drawn: torch.quantile(values[drawn], 0.5, dim=1), 60)
    generator = np.random.default_rng(0)
    theirs = stats.bootstrap((values.numpy(),), np.median, n_resamples=4000, method="percentile", rng=generator)
    assert found.value == pytest.approx(float(np.median(values.numpy())))
    assert found.low == pytest.approx(theirs.confidence_interval.low, abs=0.02)
    assert found.high == pytest.approx(theirs.confidence_interval.high, abs=0.02)


def test_about_95_of_100_intervals_hold_the_truth() -> None:
    covered = [mean_metric(torch.rand(80, dtype=torch.float64)) for _ in range(200)]
    hits = sum(found.low <= 0.5 <= found.high for found in covered if found.low is not None and found.high is not None)
    assert 176 <= hits <= 198


def test_one_seed_draws_the_same_in_pieces_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.rand(50)
    assert mean_metric(values) == mean_metric(values)
    whole = mean_metric(values)
    monkeypatch.setattr("pliant.evaluation.metric._INDICES", 130)
    assert mean_metric(values) == whole
    assert bootstrapped(lambda drawn: values[drawn].mean(1), 50, seed=1) != whole


def test_recentring_moves_the_interval_alone() -> None:
    values = torch.rand(30, dtype=torch.float64)

    def largest(drawn: torch.Tensor) -> torch.Tensor:
        return values[drawn].amax(dim=1)

    plain, moved = bootstrapped(largest, 30), bootstrapped(largest, 30, recentred=True)
    assert plain.value == moved.value == values.max().item()
    assert plain.margin == pytest.approx(moved.margin)
    assert moved.high is not None and plain.high is not None and moved.high > plain.high


def test_one_input_has_no_interval_and_none_no_value() -> None:
    assert mean_metric(torch.tensor([0.5])) == Metric(0.5)
    assert Metric(0.5).margin is None
    with pytest.raises(InputError, match="no inputs"):
        mean_metric(torch.tensor([]))
