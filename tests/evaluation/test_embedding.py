from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from pliant.errors import InputError
from pliant.evaluation.embedding import embed, embed_texts


class Doubler(nn.Module):
    """Gives twice its input, or noise where dropout is on."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.dropout = nn.Dropout(0.5)

    def forward(self, values: Tensor) -> Tensor:
        return self.dropout(values * self.scale)


def lengths_as_inputs(texts: Sequence[str]) -> list[Tensor]:
    values = torch.tensor([[float(len(text)), 1.0] for text in texts])
    return list(values.split(2))


def test_embeddings_come_in_order_as_float32_on_the_cpu() -> None:
    batches = [torch.ones(2, 3), torch.zeros(1, 3)]
    embeddings = embed(Doubler().eval().half(), [batch.half() for batch in batches], "mean")
    assert embeddings.dtype == torch.float32
    assert torch.equal(embeddings, torch.tensor([[2.0] * 3, [2.0] * 3, [0.0] * 3]))


def test_embeddings_are_ordinary_tensors_that_autograd_accepts() -> None:
    embeddings = embed(Doubler(), [torch.ones(1, 3)], "mean")
    weight = torch.ones(3, requires_grad=True)
    (embeddings @ weight).sum().backward()
    assert weight.grad is not None
    assert not embeddings.requires_grad


def test_dropout_is_off_and_every_training_flag_is_as_before() -> None:
    model = Doubler().train()
    model.dropout.eval()
    nested = nn.Sequential(model, nn.Dropout(0.9)).train()
    model.dropout.eval()
    assert torch.equal(embed(nested, [torch.ones(4, 8)], "mean"), torch.full((4, 8), 2.0))
    assert [module.training for module in nested.modules()] == [True, True, False, True]


def test_training_flags_are_restored_after_a_failure() -> None:
    model = Doubler().train()
    with pytest.raises(InputError, match="input 1 is not finite"):
        embed(model, [torch.tensor([[1.0], [float("nan")]])], "mean")
    assert model.training
    assert model.dropout.training


def test_padding_does_not_count() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Parameter(torch.tensor(1.0))

        def forward(self, values: Tensor, attention_mask: Tensor) -> Tensor:
            return values * self.one

    values = torch.tensor([[[1.0], [3.0], [99.0]]])
    batch = {"values": values, "attention_mask": torch.tensor([[1, 1, 0]])}
    assert embed(Tokens(), [batch], "mean").item() == 2.0


def test_progress_counts_inputs() -> None:
    seen: list[int] = []
    embed(Doubler(), [torch.ones(2, 3), torch.ones(1, 3)], "mean", progress=seen.append)
    assert seen == [2, 3]


@pytest.mark.parametrize("pooling", ["tokens", "average"])
def test_poolings_without_one_embedding_per_input_are_refused(pooling: str) -> None:
    with pytest.raises(InputError, match=pooling):
        embed(Doubler(), [torch.ones(1, 3)], pooling)


def test_no_batches_are_refused() -> None:
    with pytest.raises(InputError, match="no batches"):
        embed(Doubler(), [], "mean")


def test_texts_are_batched_longest_first_and_come_back_in_order() -> None:
    texts = ["aa", "a", "aaaa", "aaa", "a"]
    asked: list[str] = []

    def batches_of(given: Sequence[str]) -> list[Tensor]:
        asked.extend(given)
        return lengths_as_inputs(given)

    embeddings = embed_texts(Doubler(), texts, batches_of, "mean")
    assert asked == ["aaaa", "aaa", "aa", "a", "a"]
    assert embeddings[:, 0].tolist() == [4.0, 2.0, 8.0, 6.0, 2.0]


def test_batches_that_drop_inputs_are_refused() -> None:
    with pytest.raises(InputError, match="2 inputs for 3 texts"):
        embed_texts(Doubler(), ["a", "b", "c"], lambda texts: lengths_as_inputs(texts)[:1], "mean")
