import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.specimens import VOCABULARY, edit_json, save
from contracts.models import by_name
from safetensors.torch import load_file, save_file
from transformers import AutoModel, GPT2Config, GPT2Model, T5Config, T5Model

from pliant.rankers.rank import rank

Run = Callable[..., Any]
Refused = Callable[..., str]


def test_a_model_is_described(pliant: Run, model: Path) -> None:
    result = pliant("describe", model)
    assert (result.status, result.err) == (0, "")
    assert "family bert, pooling mean" in result.out and "104 units" in result.out


def test_json_is_all_that_is_printed(pliant: Run, model: Path) -> None:
    result = pliant("describe", model, "--json", "--tokens", 10)
    found = json.loads(result.out)
    assert result.err == ""
    assert (found["family"], found["units"], found["tokens"]) == ("bert", 2 * (4 + 48), 10)
    assert sum(site["units"] * site["unit_parameters"] for site in found["sites"]) == found["prunable_parameters"]
    assert found["total_parameters"] == sum(p.numel() for p in AutoModel.from_pretrained(model).parameters())


def test_names_are_printed_as_they_are(pliant: Run, monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    monkeypatch.chdir(model.parent)
    model.rename("a [red]b :x: mödel")
    result = pliant("describe", "a [red]b :x: mödel")
    assert result.status == 0 and "a [red]b :x: mödel: family bert" in result.out


def test_the_pooling_of_sentence_transformers_is_found(pliant: Run, model: Path) -> None:
    (model / "1_Pooling").mkdir()
    (model / "1_Pooling" / "config.json").write_text(
        '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}'
    )
    assert json.loads(pliant("describe", model, "--json").out)["pooling"] == "cls"


@pytest.mark.parametrize(("name", "objective"), [("bert", "pooled"), ("dinov3", "pooled+tokens")])
def test_the_objective_that_ranking_uses(pliant: Run, tmp_path: Path, name: str, objective: str) -> None:
    model = by_name(name).model()
    save(model, tmp_path / name)
    assert json.loads(pliant("describe", tmp_path / name, "--json").out)["objective"] == objective
    assert f", objective {objective}, float32" in pliant("describe", tmp_path / name).out
    found = rank(model, by_name(name).batches(), ranker="magnitude").provenance["objective"]
    assert found.endswith(" and tokens") == (objective == "pooled+tokens")


@pytest.mark.parametrize("name", ["./nowhere", "/no/where", "a/b/c", "", "   ", "demo:nothing", "n" * 300])
def test_no_such_model(refused: Refused, name: str) -> None:
    assert f"No model at {name!r}" in refused("describe", name)


def test_no_such_model_on_the_hub(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.errors import LocalEntryNotFoundError

    def absent(*_: object, **__: object) -> None:
        raise LocalEntryNotFoundError("no connection\nand more")

    monkeypatch.setattr("huggingface_hub.snapshot_download", absent)
    message = refused("describe", "some/model")
    assert "No model 'some/model'" in message and "(no connection)" in message


def test_a_file_or_another_directory(refused: Refused, model: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert "without config.json" in refused("describe", tmp_path / "other")
    assert "is a file" in refused("describe", model / "config.json")


@pytest.mark.parametrize("tokens", [0, -3])
def test_lengths_below_one(refused: Refused, model: Path, tokens: int) -> None:
    assert f"--tokens {tokens} is too small" in refused("describe", model, "--tokens", tokens)


def test_models_of_other_families_are_named(refused: Refused, tmp_path: Path) -> None:
    save(T5Model(T5Config(vocab_size=25, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2)), tmp_path / "t5")
    save(GPT2Model(GPT2Config(vocab_size=25, n_embd=16, n_layer=1, n_head=2, n_positions=16)), tmp_path / "gpt2")
    for name, kind in (("t5", "T5Model"), ("gpt2", "GPT2Model")):
        message = refused("describe", tmp_path / name)
        assert kind in message and "bert (" in message and "vit (" in message and "dinov2 (" in message


def test_pickled_weights_are_refused(refused: Refused, model: Path, tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.mkdir, (str(tmp_path / "harm"),)

    torch.save(Harm(), model / "pytorch_model.bin")
    (model / "model.safetensors").unlink()
    assert "model.safetensors" in refused("describe", model)


@pytest.mark.parametrize("known_type", [True, False])
def test_code_in_a_model_directory_is_not_run(pliant: Run, model: Path, tmp_path: Path, known_type: bool) -> None:
    (model / "own.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'harm')!r})\n")
    edit_json(model / "config.json", auto_map={"AutoConfig": "own.Config", "AutoModel": "own.Model"})
    if not known_type:
        edit_json(model / "config.json", model_type="own")
    result = pliant("describe", model)
    assert result.status == (0 if known_type else 2)
    assert "[y/N]" not in result.out
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("lost", ["encoder.layer.1.", "encoder.layer.0.output.dense.bias", "word_embeddings"])
def test_weights_that_are_missing(refused: Refused, model: Path, lost: str) -> None:
    weights = load_file(model / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if lost not in name}
    assert len(kept) < len(weights)
    save_file(kept, model / "model.safetensors", metadata={"format": "pt"})
    message = refused("describe", model)
    assert "has no weights for" in message and lost in message


def test_a_missing_pooler_is_no_fault(pliant: Run, model: Path) -> None:
    weights = load_file(model / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if "pooler" not in name}
    save_file(kept, model / "model.safetensors", metadata={"format": "pt"})
    assert pliant("describe", model).status == 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"intermediate_size": 64}, "[64]"),
        ({"vocab_size": VOCABULARY + 1}, f"[{VOCABULARY + 1}, 32]"),
        ({"intermediate_size": "many"}, "intermediate_size"),
        ({"num_attention_heads": 5}, "multiple"),
        ({"num_hidden_layers": 3}, "encoder.layer.2"),
        ({"num_hidden_layers": 1}, "encoder.layer.1"),
        ({"num_hidden_layers": 0}, "has 0 layers"),
        ({"vocab_size": -1}, "-1"),
        ({"model_type": "no-such-type"}, "no-such-type"),
        ({"hidden_act": "no-such-function"}, "no-such-function"),
        ({"hidden_size": 0}, "0.0 cannot be raised"),
        ({"num_attention_heads": 0}, "zero"),
        ({"vocab_size": 0}, "out of bounds"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}, "bitsandbytes"),
    ],
)
def test_a_configuration_that_does_not_fit(refused: Refused, model: Path, change: dict[str, Any], named: str) -> None:
    edit_json(model / "config.json", **change)
    assert named in refused("describe", model)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b"null", b"{}", b"\xff\xfe{}"])
def test_a_configuration_that_is_none(refused: Refused, model: Path, body: bytes) -> None:
    (model / "config.json").write_bytes(body)
    assert str(model / "config.json") in refused("describe", model)


@pytest.mark.parametrize("fraction", [0, 0.0001, 0.02, 0.5, 0.999])
def test_truncated_weights(refused: Refused, model: Path, fraction: float) -> None:
    whole = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(whole[: int(len(whole) * fraction)])
    assert "Can't read the model" in refused("describe", model)


def test_characters_that_a_terminal_lacks(pliant: Run, monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    assert pliant("describe", model).status == 0
    narrow.flush()
    assert b"\\u2013" in narrow.buffer.getvalue()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["table", "json"])
def test_no_room_for_the_result(
    pliant: Run, monkeypatch: pytest.MonkeyPatch, model: Path, options: tuple[str, ...]
) -> None:
    full = os.fdopen(os.open("/dev/full", os.O_WRONLY), "w", closefd=False)
    monkeypatch.setattr(sys, "stdout", full)
    result = pliant("describe", model, *options)
    assert result.status == 2 and result.err.startswith("error: Can't print the result: No space left")
