from typing import Any

import pytest
import torch

from pliant.errors import InputError
from pliant.output_maps import OutputMaps


def made(**changes: Any) -> OutputMaps:
    fields: dict[str, Any] = {
        "sparsities": torch.tensor([0.2, 0.5], dtype=torch.float64),
        "weights": torch.stack([torch.eye(3), 2 * torch.eye(3)]),
        "biases": torch.tensor([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]),
    }
    return OutputMaps(**{**fields, **changes})


@pytest.mark.parametrize(
    ("sparsity", "nearest", "gain"),
    [(0.2, 0, 1), (0.1, 0, 0.5), (0.3, 0, 1.5), (0.4, 1, 0.8), (0.5, 1, 1), (0.8, 1, 1.6)],
)
def test_the_nearest_map_acts_in_proportion(sparsity: float, nearest: int, gain: float) -> None:
    maps = made()
    found = maps.at(sparsity)
    assert found.weight.data_ptr() == maps.weights[nearest].data_ptr()
    assert found.bias.data_ptr() == maps.biases[nearest].data_ptr()
    assert found.gain == pytest.approx(gain)


def test_without_removal_it_does_nothing() -> None:
    assert made().at(0.0).gain == 0


def test_in_another_precision() -> None:
    maps = made().to(torch.zeros(1, dtype=torch.bfloat16))
    assert maps.weights.dtype == maps.biases.dtype == torch.bfloat16
    assert maps.sparsities.dtype == torch.float64
    assert maps.width == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sparsities": [0.2, 0.5]}, "are tensors"),
        ({"sparsities": torch.tensor([0.5, 0.2])}, "ascend"),
        ({"sparsities": torch.tensor([0.5, 0.5])}, "ascend"),
        ({"sparsities": torch.tensor([0.0, 0.5])}, r"\(0, 1\)"),
        ({"sparsities": torch.tensor([0.5, 1.0])}, r"\(0, 1\)"),
        ({"sparsities": torch.tensor([0.5])}, "shapes"),
        ({"sparsities": torch.tensor(0.5)}, "shapes"),
        ({"weights": torch.zeros(2, 3, 4)}, "shapes"),
        ({"biases": torch.zeros(2, 4)}, "shapes"),
        ({"biases": torch.full((2, 3), float("nan"))}, "finite"),
        ({"weights": torch.full((2, 3, 3), float("inf"))}, "finite"),
        (
            {"sparsities": torch.zeros(0), "weights": torch.zeros(0, 3, 3), "biases": torch.zeros(0, 3)},
            "shapes",
        ),
    ],
)
def test_what_cannot_be_applied(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        made(**changes)
