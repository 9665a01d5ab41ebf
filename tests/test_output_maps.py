from typing import Any

import pytest
import torch

from pliant.errors import InputError
from pliant.output_maps import OutputMaps


def made(**changes: Any) -> OutputMaps:
    fields: dict[str, Any] = {
        "widths": torch.tensor([[4, 16], [2, 8]]),
        "weights": torch.stack([torch.eye(3), 2 * torch.eye(3)]),
        "biases": torch.tensor([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]),
        "alignment": torch.tensor([8, 1]),
    }
    return OutputMaps(**{**fields, **changes})


def test_a_map_belongs_to_its_cut() -> None:
    maps = made()
    found = maps.of((2, 8))
    assert found is not None
    assert found.weight.data_ptr() == maps.weights[1].data_ptr() and found.bias.data_ptr() == maps.biases[1].data_ptr()
    assert (4, 16) in maps and (2, 16) not in maps
    assert maps.of((2, 16)) is None


def test_in_another_precision() -> None:
    maps = made().to(torch.zeros(1, dtype=torch.bfloat16))
    assert maps.weights.dtype == maps.biases.dtype == torch.bfloat16
    assert maps.places == made().places and maps.width == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"widths": [[4, 16], [2, 8]]}, "are tensors, not list"),
        ({"widths": torch.tensor([4, 2])}, "shapes"),
        ({"widths": torch.tensor([[4, 16]])}, "shapes"),
        ({"weights": torch.zeros(2, 3, 4)}, "shapes"),
        ({"weights": torch.tensor(1.0)}, "shapes"),
        ({"biases": torch.zeros(2, 4)}, "shapes"),
        ({"biases": torch.tensor(0.0)}, "shapes"),
        ({"alignment": torch.tensor([8])}, "shapes"),
        ({"alignment": torch.tensor([8, 0])}, "at least 1"),
        ({"widths": torch.tensor([[4.0, 16.0], [2.0, 8.0]])}, "int64"),
        ({"widths": torch.tensor([[4, 16], [4, 16]])}, "same cut"),
        ({"biases": torch.full((2, 3), float("nan"))}, "finite"),
        ({"weights": torch.full((2, 3, 3), float("inf"))}, "finite"),
    ],
)
def test_what_cannot_be_applied(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        made(**changes)
