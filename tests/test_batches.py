from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pliant.batches import device_of, forward, precision_of, size, to_device, valid_tokens


class Adds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, one: Tensor, other: Tensor | None = None) -> Tensor:
        return one if other is None else one + 2 * other


def test_forward() -> None:
    one, other = torch.ones(2), torch.full((2,), 3.0)
    assert forward(Adds(), one).tolist() == [1, 1]
    assert forward(Adds(), {"other": other, "one": one}).tolist() == [7, 7]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_inputs_take_the_precision_of_the_model(dtype: torch.dtype) -> None:
    model, seen = Adds().to(dtype), list[torch.dtype]()
    model.register_forward_pre_hook(
        lambda _, given, named: seen.extend(value.dtype for value in (*given, *named.values())), with_kwargs=True
    )
    forward(model, torch.ones(2, dtype=torch.float64))
    forward(model, {"one": torch.ones(2), "other": torch.ones(2, dtype=torch.long)})
    assert seen == [dtype, dtype, torch.long]


def test_precisions_have_names() -> None:
    model = nn.Sequential(Adds(), nn.Linear(3, 3).bfloat16())
    assert precision_of(Adds().half()) == "float16"
    assert precision_of(model) == "bfloat16 and float32"


@pytest.mark.parametrize("batch", [torch.zeros(3, 2), {"input_ids": torch.zeros(3, 7), "labels": torch.zeros(3)}])
def test_size(batch: Any) -> None:
    assert size(batch) == 3


def test_to_device() -> None:
    meta = torch.device("meta")
    moved = to_device({"a": torch.zeros(1), "b": torch.zeros(1)}, meta)
    assert not isinstance(moved, Tensor)
    assert {name: value.device for name, value in moved.items()} == {"a": meta, "b": meta}
    plain = to_device(torch.zeros(1), meta)
    assert isinstance(plain, Tensor)
    assert plain.device == meta
    assert device_of(Adds().to(meta)) == meta


@pytest.mark.parametrize("name", ["attention_mask", "pixel_attention_mask"])
def test_valid_tokens_follow_the_mask(name: str) -> None:
    mask = torch.tensor([[1, 1, 0], [0, 1, 1]])
    found = valid_tokens({"attention_mask": torch.ones(2, 5), name: mask}, torch.zeros(2, 3, 4))
    assert found.dtype == torch.bool
    assert torch.equal(found, mask.bool())


@pytest.mark.parametrize(
    "batch",
    [
        torch.zeros(2, 3, 8, 8),
        {"pixel_values": torch.zeros(2, 3, 8, 8)},
        {"attention_mask": torch.zeros(2, 5)},
        {"attention_mask": torch.zeros(2, 1, 3, 3)},
    ],
    ids=["tensor", "images", "another length", "four dimensions"],
)
def test_all_tokens_are_valid_without_a_mask_that_fits(batch: Any) -> None:
    assert valid_tokens(batch, torch.zeros(2, 3, 4)).all()


def test_what_a_model_asserts_of_its_inputs_is_an_error_of_values() -> None:
    class Picky(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            assert len(input) % 2 == 0, "not even"
            return input

    assert len(forward(Picky(1, 1), torch.zeros(2, 1))) == 2
    with pytest.raises(ValueError, match="not even"):
        forward(Picky(1, 1), torch.zeros(3, 1))
