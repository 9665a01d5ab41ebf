import math

import pytest
import torch

from pliant.errors import InputError
from pliant.evaluation.fidelity import fidelity


def at_angles(degrees: list[float]) -> torch.Tensor:
    return torch.tensor([[math.cos(math.radians(angle)), math.sin(math.radians(angle))] for angle in degrees])


def test_mean_and_fifth_percentile_of_known_angles() -> None:
    angles = [0.0] * 19 + [60.0, 90.0]
    found = fidelity(at_angles([0.0] * 21), at_angles(angles))
    assert found.cosine == pytest.approx((19 + 0.5) / 21, abs=1e-6)
    # The 5th percentile of 21 values is the second smallest.
    assert found.worst == pytest.approx(0.5, abs=1e-6)


def test_length_does_not_count() -> None:
    full = torch.randn(50, 8)
    assert fidelity(full, full * torch.rand(50, 1).add(0.1)).cosine == pytest.approx(1.0, abs=1e-6)


def test_equal_embeddings_are_never_above_one() -> None:
    full = torch.randn(500, 3) * 1e-3
    assert fidelity(full, full).cosine <= 1.0


def test_opposite_embeddings_are_minus_one() -> None:
    full = torch.randn(5, 3)
    assert fidelity(full, -full).worst == pytest.approx(-1.0, abs=1e-6)


@pytest.mark.parametrize(("full", "slim"), [((2, 3), (2, 4)), ((2, 3), (1, 3)), ((0, 3), (0, 3)), ((3,), (3,))])
def test_embeddings_that_do_not_match_are_refused(full: tuple[int, ...], slim: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="can't be compared"):
        fidelity(torch.ones(full), torch.ones(slim))
