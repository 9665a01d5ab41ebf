import math

import pytest
import torch
from evaluation.tasks.labelled import size

from pliant.errors import InputError
from pliant.evaluation.metric import Metric
from pliant.evaluation.reading import Reading
from pliant.evaluation.similarity import linear_cka, similarities
from pliant.evaluation.tasks.fidelity import Fidelity


def at_angles(degrees: list[float]) -> torch.Tensor:
    return torch.tensor([[math.cos(math.radians(angle)), math.sin(math.radians(angle))] for angle in degrees])


def scored(full: torch.Tensor, slim: torch.Tensor) -> dict[str, Metric]:
    task = Fidelity(Reading("x", lambda items: [], "mean"))
    return dict(task.score(size(full), size(slim)))


def test_mean_and_fifth_percentile_of_known_angles() -> None:
    angles = [0.0] * 19 + [60.0, 90.0]
    found = scored(at_angles([0.0] * 21), at_angles(angles))
    assert found["cosine"].value == pytest.approx((19 + 0.5) / 21, abs=1e-6)
    # The 5th percentile of 21 values is the second smallest.
    assert found["worst_cosine"].value == pytest.approx(0.5, abs=1e-6)


def test_length_does_not_count() -> None:
    full = torch.randn(50, 8)
    assert scored(full, full * torch.rand(50, 1).add(0.1))["cosine"].value == pytest.approx(1.0, abs=1e-6)


def test_equal_embeddings_are_never_above_one() -> None:
    full = torch.randn(500, 3) * 1e-3
    assert similarities(full, full).max() <= 1.0
    assert scored(full, full)["cosine"].high == pytest.approx(1.0, abs=1e-12)


def test_opposite_embeddings_are_minus_one() -> None:
    full = torch.randn(5, 3)
    assert scored(full, -full)["worst_cosine"].value == pytest.approx(-1.0, abs=1e-6)


@pytest.mark.parametrize(("full", "slim"), [((2, 3), (2, 4)), ((2, 3), (1, 3)), ((0, 3), (0, 3)), ((3,), (3,))])
def test_embeddings_that_do_not_match_are_refused(full: tuple[int, ...], slim: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="can't be compared"):
        scored(torch.ones(full), torch.ones(slim))


def by_features(full: torch.Tensor, slim: torch.Tensor) -> float:
    """CKA as in its paper, from features rather than from similarities."""
    one, other = (values.double() - values.double().mean(dim=0) for values in (full, slim))
    norms = torch.linalg.norm(one.T @ one) * torch.linalg.norm(other.T @ other)
    return (torch.linalg.norm(one.T @ other) ** 2 / norms).item()


@pytest.mark.parametrize("inputs", [2, 3, 40, 300])
def test_cka_is_that_of_its_paper(inputs: int) -> None:
    full = torch.randn(inputs, 12)
    slim = full @ torch.randn(12, 12) * 0.4 + torch.randn(inputs, 12) + 5
    assert linear_cka(full, slim).value == pytest.approx(by_features(full, slim), abs=1e-9)


def test_cka_knows_no_rotation_scale_or_shift() -> None:
    full = torch.randn(30, 5)
    rotation = torch.linalg.qr(torch.randn(5, 5)).Q
    assert linear_cka(full, 3 * full @ rotation + 1).value == pytest.approx(1, abs=1e-6)
    assert linear_cka(torch.ones(4, 2), torch.ones(4, 2)).value == 1


def test_the_interval_of_cka_is_around_it() -> None:
    full = torch.randn(200, 30)
    found = linear_cka(full, full + 2 * torch.randn(200, 30))
    assert found.low is not None and found.high is not None
    assert found.low < found.value < found.high < found.value + 0.1


def test_cka_looks_at_a_thousand_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pliant.evaluation.similarity.CKA_INPUTS", 25)
    full, slim = torch.randn(60, 4), torch.randn(60, 4)
    chosen = torch.randperm(60, generator=torch.Generator().manual_seed(0))[:25]
    assert linear_cka(full, slim).value == pytest.approx(by_features(full[chosen], slim[chosen]), abs=1e-9)
