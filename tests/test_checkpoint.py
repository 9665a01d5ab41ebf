import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.specimens import edit_json, image_model, inputs, save, text_model
from contracts.models import by_name
from safetensors.torch import load_file
from transformers import BertConfig, BertModel

from pliant.checkpoint import CHECKPOINT_FILES, UNWANTED_FOLDERS, model_class, open_checkpoint
from pliant.conventions import module_folders
from pliant.errors import ArtefactError, InputError, UnsupportedModelError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return text_model(tmp_path / "model")


def test_a_text_checkpoint(model: Path) -> None:
    checkpoint = open_checkpoint(str(model))
    assert (checkpoint.name, checkpoint.directory) == (str(model), model)
    assert (checkpoint.inputs, checkpoint.pooling, checkpoint.max_tokens) == ("text", None, 40)
    assert not checkpoint.model.training
    expected = BertModel.from_pretrained(model).eval()
    assert torch.equal(checkpoint.model(**inputs()).last_hidden_state, expected(**inputs()).last_hidden_state)
    assert checkpoint.preprocessor()("the cat")["input_ids"] == [2, 5, 7, 3]


def test_an_image_checkpoint(tmp_path: Path) -> None:
    from PIL import Image

    checkpoint = open_checkpoint(str(image_model(tmp_path / "model")))
    assert (checkpoint.inputs, checkpoint.pooling) == ("image", None)
    pixels = checkpoint.preprocessor()(images=[Image.new("RGB", (9, 5))], return_tensors="pt")["pixel_values"]
    assert list(pixels.shape) == [1, 3, 24, 24]


def test_a_model_keeps_its_own_dtype(tmp_path: Path) -> None:
    config = BertConfig(vocab_size=9, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    save(BertModel(config).bfloat16(), tmp_path / "half")
    assert open_checkpoint(str(tmp_path / "half")).model.dtype == torch.bfloat16


def test_the_pooling_that_its_files_name(model: Path) -> None:
    (model / "1_Pooling").mkdir()
    (model / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    checkpoint = open_checkpoint(str(model))
    assert checkpoint.pooling == checkpoint.conventions.pooling == "cls"


@pytest.mark.parametrize(("longest", "expected"), [(12, 12), (400, 40), (None, 40)])
def test_the_longest_text(model: Path, longest: int | None, expected: int) -> None:
    if longest is not None:
        (model / "sentence_bert_config.json").write_text(f'{{"max_seq_length": {longest}}}')
    assert open_checkpoint(str(model)).max_tokens == expected


def test_a_name_on_the_hub(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    asked: list[tuple[Any, ...]] = []

    def download(name: str, *, allow_patterns: list[str], ignore_patterns: list[str]) -> str:
        asked.append((name, allow_patterns, ignore_patterns))
        return str(model)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    checkpoint = open_checkpoint("someone/model")
    assert (checkpoint.name, checkpoint.directory) == ("someone/model", model)
    [(name, wanted, unwanted)] = asked
    assert name == "someone/model"
    assert wanted == [f"*{suffix}" for suffix in CHECKPOINT_FILES] and not any("bin" in each for each in wanted)
    assert unwanted == [f"{folder}/*" for folder in UNWANTED_FOLDERS]


def test_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: object, **__: object) -> str:
        raise ConnectionError("no route to host")

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    with pytest.raises(InputError, match=r"No model 'someone/model'.*no route to host.*Pass a checkpoint's directory"):
        open_checkpoint("someone/model")


def test_a_pickle_is_never_opened(tmp_path: Path, model: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.mkdir, (str(tmp_path / "harm"),)

    torch.save({"weight": Harm()}, model / "pytorch_model.bin")
    open_checkpoint(str(model))
    (model / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model\.safetensors"):
        open_checkpoint(str(model))
    assert not (tmp_path / "harm").exists()


def test_weights_of_other_shapes_are_named(model: Path) -> None:
    edit_json(model / "config.json", max_position_embeddings=41)
    expected = (
        r"has weights \[40, 32\] for embeddings\.position_embeddings\.weight, but its config\.json says \[41, 32\]"
    )
    with pytest.raises(InputError, match=expected):
        open_checkpoint(str(model))


def test_a_class_is_found_by_name() -> None:
    assert model_class("BertModel") is BertModel
    for name in ("BertConfig", "NoSuchModel", "__name__"):
        with pytest.raises(ArtefactError, match=f"no model '{name}'"):
            model_class(name)


def test_opening_changes_no_file(model: Path) -> None:
    before = load_file(model / "model.safetensors")
    names = sorted(path.name for path in model.iterdir())
    open_checkpoint(str(model)).preprocessor()
    assert sorted(path.name for path in model.iterdir()) == names
    assert all(torch.equal(before[name], tensor) for name, tensor in load_file(model / "model.safetensors").items())


@pytest.mark.parametrize("name", ["siglip-text", "siglip2-text"])
def test_a_tower_that_only_its_own_files_name(tmp_path: Path, name: str) -> None:
    """AutoModel has no class for it."""
    model = by_name(name).model()
    save(model, tmp_path / "tower")
    found = open_checkpoint(str(tmp_path / "tower"))
    assert type(found.model) is type(model) and found.inputs == "text"
    assert all(torch.equal(mine, its) for mine, its in zip(found.model.parameters(), model.parameters(), strict=True))
    for other in ("BertModel", "SiglipTextConfig", "PreTrainedModel", "AutoModel", "NoSuchModel", ""):
        edit_json(tmp_path / "tower" / "config.json", architectures=[other])
        with pytest.raises(UnsupportedModelError, match=r"transformers has no encoder class for it\. Pass a model"):
            open_checkpoint(str(tmp_path / "tower"))


@pytest.mark.parametrize("name", ["bert-classifier", "qwen3", "vit", "siglip-text"])
def test_layers_that_the_configuration_does_not_count(tmp_path: Path, name: str) -> None:
    save(by_name(name).model(), tmp_path / "model")
    open_checkpoint(str(tmp_path / "model"))
    edit_json(tmp_path / "model" / "config.json", num_hidden_layers=1)
    if name == "qwen3":
        edit_json(tmp_path / "model" / "config.json", layer_types=["full_attention"])
    with pytest.raises(InputError, match=r"has weights for .*1\..*, a layer that its config\.json doesn't count"):
        open_checkpoint(str(tmp_path / "model"))


@pytest.mark.parametrize("length", ["abc", -5, [1], 0.5])
def test_a_longest_text_that_is_none(model: Path, length: Any) -> None:
    (model / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": length}))
    with pytest.raises(InputError, match="max_seq_length"):
        open_checkpoint(str(model))


def test_configurations_of_other_shapes(model: Path) -> None:
    (model / "1_Pooling").mkdir()
    (model / "1_Pooling" / "config.json").write_text('{"pooling_mode": {"cls": 1}}')
    (model / "modules.json").write_text('[{"path": 5}, {"path": "1_Pooling"}]')
    assert open_checkpoint(str(model)).pooling is None
    assert module_folders(model) == {"1_Pooling"}
    (model / "modules.json").write_text('[{"path": "."}, {"path": ""}, {"path": "./1_Pooling"}]')
    assert module_folders(model) == {"1_Pooling"}
    (model / "modules.json").write_text(json.dumps([{"path": "x" * 5000, "type": "st.Pooling"}]))
    with pytest.raises(InputError, match=r"Can't read .*Copy the checkpoint again"):
        open_checkpoint(str(model))
    (model / "modules.json").unlink()
    (model / "tokenizer_config.json").write_text("[1]")
    with pytest.raises(InputError, match="Can't read the model"):
        open_checkpoint(str(model)).preprocessor()
    (model / "pliant.json").write_text('{"class": 5}')
    with pytest.raises(ArtefactError, match="no model 5"):
        open_checkpoint(str(model))
    (model / "pliant.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="Can't read"):
        open_checkpoint(str(model))
