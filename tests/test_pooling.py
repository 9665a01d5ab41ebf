from typing import Any

import pytest
import torch

from pliant.errors import InputError
from pliant.pooling import (
    POOLINGS,
    check_pooling,
    distillation_of,
    distilled_poolings,
    kept_outputs,
    pool,
    token_outputs,
)

# [batch 2, tokens 3, width 2]
TOKENS = torch.tensor([[[1.0, 10], [2, 20], [3, 30]], [[4, 40], [5, 50], [6, 60]]])


def batch_of(mask: list[list[int]] | None) -> dict[str, torch.Tensor]:
    words = torch.zeros(2, 3, dtype=torch.long)
    return {"input_ids": words} | ({} if mask is None else {"attention_mask": torch.tensor(mask)})


@pytest.mark.parametrize(
    ("pooling", "mask", "expected"),
    [
        ("cls", None, [[1, 10], [4, 40]]),
        ("cls", [[1, 1, 0], [0, 0, 1]], [[1, 10], [6, 60]]),
        ("cls", [[0, 1, 1], [0, 1, 1]], [[2, 20], [5, 50]]),
        ("last", None, [[3, 30], [6, 60]]),
        ("last", [[1, 1, 0], [1, 0, 0]], [[2, 20], [4, 40]]),
        ("last", [[0, 1, 1], [0, 0, 1]], [[3, 30], [6, 60]]),
        ("mean", None, [[2, 20], [5, 50]]),
        ("mean", [[1, 1, 0], [0, 0, 1]], [[1.5, 15], [6, 60]]),
        ("mean", [[0, 0, 0], [1, 1, 1]], [[0, 0], [5, 50]]),
    ],
)
def test_padding_never_counts(pooling: str, mask: list[list[int]] | None, expected: list[list[float]]) -> None:
    assert pool({"last_hidden_state": TOKENS}, batch_of(mask), pooling).tolist() == expected


@pytest.mark.parametrize("pooling", ["cls", "mean", "last", "tokens"])
def test_embeddings_are_left_as_they_are(pooling: str) -> None:
    embeddings = torch.rand(2, 5)
    assert pool(embeddings, batch_of(None), pooling) is embeddings


def test_tokens_and_pooler() -> None:
    pooled = torch.rand(2, 2)
    outputs = {"last_hidden_state": TOKENS, "pooler_output": pooled}
    assert pool(outputs, batch_of(None), "tokens") is TOKENS
    assert pool(outputs, batch_of(None), "pooler") is pooled


@pytest.mark.parametrize("name", ["text_embeds", "image_embeds"])
def test_the_embedding_that_a_tower_projects(name: str) -> None:
    projected = torch.rand(2, 2)
    outputs = {"last_hidden_state": TOKENS, "pooler_output": None, name: projected}
    assert pool(outputs, batch_of(None), "pooler") is projected


@pytest.mark.parametrize("outputs", [{"last_hidden_state": TOKENS}, {"pooler_output": None}, TOKENS])
def test_no_pooler(outputs: Any) -> None:
    with pytest.raises(InputError, match=r"no pooler output.*cls, mean"):
        pool(outputs, batch_of(None), "pooler")


@pytest.mark.parametrize("outputs", [TOKENS, {"last_hidden_state": TOKENS}, (TOKENS, None), [TOKENS]])
def test_results_of_several_kinds(outputs: Any) -> None:
    assert token_outputs(outputs) is TOKENS


@pytest.mark.parametrize(
    ("outputs", "message"),
    [({"logits": TOKENS}, "logits.*without its head"), ((), "tuple"), (None, "NoneType"), ([1], "list")],
)
def test_results_without_tokens(outputs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        token_outputs(outputs)


def test_names() -> None:
    assert [check_pooling(name) for name in POOLINGS] == ["cls", "mean", "last", "pooler", "tokens"]
    with pytest.raises(InputError, match=r"'max'. Allowed: cls, mean, last, pooler, tokens"):
        pool(TOKENS, batch_of(None), "max")


def test_bfloat16() -> None:
    pooled = pool(TOKENS.bfloat16(), batch_of([[1, 1, 0], [1, 1, 1]]), "mean")
    assert pooled.dtype == torch.bfloat16
    assert pooled.float().tolist() == [[1.5, 15], [5, 50]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_mean_of_more_tokens_than_sixteen_bits_can_count(dtype: torch.dtype) -> None:
    tokens = torch.rand(2, 2051, 3).to(dtype)
    mask = torch.ones(2, 2051, dtype=torch.long)
    mask[0, 515:] = 0
    pooled = pool(tokens, {"attention_mask": mask}, "mean")
    assert pooled.dtype == dtype
    assert torch.equal(pooled[0], tokens[0, :515].double().mean(0).to(dtype))
    assert torch.equal(pooled[1], tokens[1].double().mean(0).to(dtype))


@pytest.mark.parametrize("pooling", ["cls", "mean", "last", "pooler", "tokens"])
def test_a_model_that_pools_by_itself(pooling: str) -> None:
    """As those of timm do, SigLIP's attention pooling included."""
    embedding = torch.rand(2, 5)
    assert pool(embedding, torch.rand(2, 3, 4, 4), pooling) is embedding


def test_of_tokens_only_valid_ones_are_kept() -> None:
    batch = batch_of([[1, 1, 0], [0, 0, 1]])
    assert kept_outputs(TOKENS, batch, "tokens").tolist() == [[1, 10], [2, 20], [6, 60]]
    assert kept_outputs(TOKENS, batch, "mean").tolist() == [[1.5, 15], [6, 60]]


@pytest.mark.parametrize("poolings", [("tokens",), ("cls",), ("mean", "tokens")])
def test_a_distillation_is_known_by_its_name(poolings: tuple[str, ...]) -> None:
    assert distilled_poolings(distillation_of(*poolings)) == poolings


@pytest.mark.parametrize("name", [None, "", "loss", "tokens", "my distillation of tokens", 7])
def test_other_objectives_keep_no_pooling(name: Any) -> None:
    assert distilled_poolings(name) == ()
