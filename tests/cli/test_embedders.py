"""Other families than BERT, from a checkpoint's directory to a standalone cut, as a user goes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.specimens import SIZES, VOCABULARY, edit_json, inputs, save, save_tokenizer
from transformers import (
    AutoModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedModel,
    Qwen3Config,
    Qwen3Model,
)

import pliant as library
from pliant.artefacts import load_cut, load_elastic

Run = Callable[..., Any]

_TEXT = {**SIZES, "vocab_size": VOCABULARY, "max_position_embeddings": 40, "pad_token_id": 0}
_ENDS = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 3)
MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "qwen3": lambda: Qwen3Model(Qwen3Config(**_TEXT, num_key_value_heads=2, head_dim=8)),
    "mpnet": lambda: MPNetModel(MPNetConfig(**{**_TEXT, "pad_token_id": 1})),
    "modernbert": lambda: ModernBertModel(ModernBertConfig(**_TEXT, **_ENDS)),
}


def embedder(directory: Path, family: str, pooling: str, side: str) -> Path:
    """A checkpoint's directory as sentence-transformers has them."""
    torch.manual_seed(0)
    save(MODELS[family](), directory)
    save_tokenizer(directory)
    edit_json(directory / "tokenizer_config.json", padding_side=side)
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{pooling}": True}))
    modules = [{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    (directory / "modules.json").write_text(json.dumps(modules))
    return directory


@pytest.mark.parametrize(
    ("family", "mode", "pooling", "side"),
    [
        ("qwen3", "lasttoken", "last", "left"),
        ("mpnet", "mean_tokens", "mean", "right"),
        ("modernbert", "cls_token", "cls", "right"),
    ],
)
def test_ranked_cut_and_loaded(
    pliant: Run, tmp_path: Path, texts: Path, family: str, mode: str, pooling: str, side: str
) -> None:
    model, elastic, small = embedder(tmp_path / "model", family, mode, side), tmp_path / "elastic", tmp_path / "small"
    ranked = pliant("rank", model, "--data", texts, "--out", elastic, "--steps", 2, "--batch-size", 8)
    assert ranked.status == 0, ranked.err
    assert load_elastic(elastic)[1].provenance["pooling"] == pooling
    assert load_elastic(elastic)[1].provenance["family"] == family
    done = pliant("cut", elastic, "--sparsity", 0.5, "--out", small)
    assert done.status == 0, done.err
    whole, loaded = library.load(elastic), load_cut(small)
    expected = whole.cut(sparsity=0.5)(**inputs()).last_hidden_state
    assert torch.equal(loaded(**inputs()).last_hidden_state, expected)
    torch.testing.assert_close(whole.at(sparsity=0.5)(**inputs()).last_hidden_state, expected, atol=1e-5, rtol=0)
    whole.save(tmp_path / "again")
    for directory in (elastic, tmp_path / "again"):
        stock = AutoModel.from_pretrained(directory)
        full = AutoModel.from_pretrained(model)
        assert stock.state_dict().keys() == full.state_dict().keys()
        assert all(torch.equal(tensor, stock.state_dict()[name]) for name, tensor in full.state_dict().items())
