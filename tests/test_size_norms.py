import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pliant.errors import InputError
from pliant.size_norms import SizeNorms


def made(knots: tuple[float, ...] = (0.2, 0.6)) -> SizeNorms:
    values = torch.arange(1.0, len(knots) + 1).reshape(-1, 1, 1, 1).expand(-1, 3, 2, 4).clone()
    return SizeNorms(torch.tensor(knots, dtype=torch.float64), values)


@pytest.mark.parametrize(
    ("sparsity", "value"), [(0, 0), (0.1, 0.5), (0.2, 1), (0.3, 1.25), (0.4, 1.5), (0.6, 2), (0.7, 2), (0.99, 2)]
)
def test_straight_lines_between_knots(sparsity: float, value: float) -> None:
    found = made().at(sparsity)
    assert found.shape == (3, 2, 4)
    torch.testing.assert_close(found, torch.full((3, 2, 4), float(value)))


@given(st.floats(0, 0.999), st.floats(0, 1e-6))
def test_no_jumps(sparsity: float, further: float) -> None:
    norms = made((0.1, 0.3, 0.9))
    difference = norms.at(min(0.999, sparsity + further)) - norms.at(sparsity)
    assert difference.abs().max() <= 11 * further + 1e-6


@pytest.mark.parametrize(
    ("knots", "shape"),
    [
        ((), (0, 3, 2, 4)),
        ((0.2,), (2, 3, 2, 4)),
        ((0.2, 0.6), (2, 3, 1, 4)),
        ((0.2, 0.6), (2, 3, 4)),
        ((0.0, 0.6), (2, 3, 2, 4)),
        ((0.6, 0.2), (2, 3, 2, 4)),
        ((0.2, 1.0), (2, 3, 2, 4)),
        ((0.2, math.nan), (2, 3, 2, 4)),
    ],
)
def test_shapes_and_knots_that_mean_nothing(knots: tuple[float, ...], shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"allowed: |aren't allowed: "):
        SizeNorms(torch.tensor(knots, dtype=torch.float64), torch.zeros(shape))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_not_finite(value: float) -> None:
    values = torch.zeros(1, 3, 2, 4)
    values[0, 1, 1, 2] = value
    with pytest.raises(InputError, match="finite"):
        SizeNorms(torch.tensor([0.5]), values)


def test_no_tensors() -> None:
    broken: Any = [0.5]
    with pytest.raises(InputError, match="two tensors"):
        SizeNorms(broken, torch.zeros(1, 3, 2, 4))
