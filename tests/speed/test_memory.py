import gc

import pytest
import torch
from contracts.models import by_name
from speed.specimens import batch, pair
from torch import Tensor, nn

from pliant.speed.memory import peak_bytes

FLOAT = 4


class Keeping(nn.Module):
    """Makes three tensors of 100 entries and holds on to all of them."""

    def __init__(self, keep: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(100))
        self.keep = keep

    def forward(self, values: Tensor) -> Tensor:
        held = []
        for _ in range(3):
            values = values + self.weight
            if self.keep:
                held.append(values)
        return values[:1]


def test_only_what_is_alive_at_one_time_counts() -> None:
    assert peak_bytes(Keeping(keep=True), torch.zeros(100)) == 3 * 100 * FLOAT
    assert peak_bytes(Keeping(keep=False), torch.zeros(100)) == 2 * 100 * FLOAT


def test_weights_inputs_and_views_of_them_take_nothing() -> None:
    class Looking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(100, 100))

        def forward(self, values: Tensor) -> Tensor:
            return self.weight.T[: len(values.view(-1)[:3])]

    assert peak_bytes(Looking(), torch.zeros(100)) == 0


@pytest.mark.parametrize("name", ["bert", "vit"])
def test_activations_grow_with_the_batch_and_shrink_with_the_size(name: str) -> None:
    original, elastic = pair(name)
    small, large = (peak_bytes(original, batch(count, name)) for count in (2, 8))
    cut = peak_bytes(elastic.at(sparsity=0.8), batch(8, name))
    assert small and large and cut
    assert 3.9 * small <= large <= 4.1 * small
    assert cut < large
    assert peak_bytes(elastic.at(sparsity=0.0), batch(8, name)) == large


def test_the_model_runs_as_before() -> None:
    specimen = by_name("bert")
    original, _ = pair()
    before = original(**specimen.batch()).last_hidden_state
    peak_bytes(original, specimen.batch())
    gc.collect()
    assert torch.equal(original(**specimen.batch()).last_hidden_state, before)
