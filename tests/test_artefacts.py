import json
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.specimens import TEXT_CONFIG, VOCABULARY, inputs, save_tokenizer, text_model, tree
from safetensors.torch import load_file
from torch import nn
from transformers import AutoModel, BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel

import pliant
from pliant.artefacts import RANKING, _checksum, load_cut, load_elastic, write_cut, write_elastic
from pliant.checkpoint import Checkpoint, open_checkpoint
from pliant.errors import ArtefactError, InputError
from pliant.files import digest
from pliant.ranking import FORMAT, Ranking


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return open_checkpoint(str(text_model(tmp_path / "model")))


def ranking_of(model: nn.Module, **options: Any) -> Ranking:
    return pliant.rank(model, [inputs(3), inputs(2)], ranker="random", **options)


def test_written_and_read(checkpoint: Checkpoint, tmp_path: Path) -> None:
    ranking = ranking_of(checkpoint.model, pooling="cls")
    write_elastic(tmp_path / "e", checkpoint, ranking)
    again, found = load_elastic(tmp_path / "e")
    assert torch.equal(found.scores, ranking.scores) and found.provenance == ranking.provenance
    assert again.pooling == "cls"
    assert torch.equal(again.model(**inputs())[0], checkpoint.model(**inputs())[0])


def test_the_manifest_lists_every_file(checkpoint: Checkpoint, tmp_path: Path) -> None:
    write_elastic(tmp_path / "e", checkpoint, ranking_of(checkpoint.model))
    manifest = json.loads((tmp_path / "e" / "pliant.json").read_text())
    assert (manifest["format"], manifest["form"], manifest["class"]) == (FORMAT, "elastic", "BertModel")
    names = set(tree(tmp_path / "e")) - {"pliant.json"}
    assert manifest["files"] == {name: digest(tmp_path / "e" / name) for name in names}
    assert RANKING in names


def test_elastic_save_writes_the_stock_order(checkpoint: Checkpoint, tmp_path: Path) -> None:
    original = {name: tensor.clone() for name, tensor in checkpoint.model.state_dict().items()}
    expected = checkpoint.model(**inputs())[0]
    elastic = pliant.Elastic(checkpoint.model, ranking_of(checkpoint.model))
    assert not all(torch.equal(tensor, original[name]) for name, tensor in checkpoint.model.state_dict().items())
    elastic.save(tmp_path / "e")
    stock = AutoModel.from_pretrained(tmp_path / "e")
    assert all(torch.equal(tensor, original[name]) for name, tensor in stock.state_dict().items())
    assert torch.equal(stock(**inputs())[0], expected)
    half = pliant.load(tmp_path / "e").at(sparsity=0.5)
    assert torch.equal(half(**inputs())[0], elastic.at(sparsity=0.5)(**inputs())[0])


@pytest.mark.parametrize("model_type", [BertForSequenceClassification, BertForMaskedLM])
def test_models_with_a_head(model_type: type[Any], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = model_type(TEXT_CONFIG).eval()
    labels = torch.tensor([0, 1, 1]) if model_type is BertForSequenceClassification else inputs()["input_ids"]
    batch = {**inputs(), "labels": labels}
    elastic = pliant.Elastic(model, pliant.rank(model, [batch, batch], ranker="random", objective="task"))
    elastic.save(tmp_path / "e")
    save_tokenizer(tmp_path / "e")
    loaded = pliant.load(tmp_path / "e")
    assert type(loaded.model) is model_type
    assert torch.equal(loaded.at(sparsity=0.4)(**inputs()).logits, elastic.at(sparsity=0.4)(**inputs()).logits)
    cut = elastic.cut(sparsity=0.4)
    write_cut(tmp_path / "c", cut, elastic.plan(sparsity=0.4).widths, open_checkpoint(str(tmp_path / "e")))
    own = load_cut(tmp_path / "c")
    assert torch.equal(own(**inputs()).logits, cut(**inputs()).logits)


def test_tied_weights_are_tied_again(tmp_path: Path) -> None:
    model = BertForMaskedLM(TEXT_CONFIG).eval()
    batch = {**inputs(), "labels": inputs()["input_ids"]}
    elastic = pliant.Elastic(model, pliant.rank(model, [batch, batch], ranker="random", objective="task"))
    elastic.save(tmp_path / "e")
    cut, widths = elastic.cut(sparsity=0.4), elastic.plan(sparsity=0.4).widths
    write_cut(tmp_path / "c", cut, widths, open_checkpoint(str(tmp_path / "e")))
    assert "cls.predictions.decoder.weight" not in load_file(tmp_path / "c" / "model.safetensors")
    own = load_cut(tmp_path / "c")
    embeddings = own.get_parameter("bert.embeddings.word_embeddings.weight")
    assert own.get_parameter("cls.predictions.decoder.weight") is embeddings
    assert list(embeddings.shape) == [VOCABULARY, 32]


def test_a_cut_in_bfloat16(tmp_path: Path) -> None:
    model = BertModel(TEXT_CONFIG).eval().bfloat16()
    model.save_pretrained(tmp_path / "m")
    checkpoint = open_checkpoint(str(tmp_path / "m"))
    elastic = pliant.Elastic(checkpoint.model, ranking_of(checkpoint.model))
    cut = elastic.cut(sparsity=0.5)
    write_cut(tmp_path / "c", cut, elastic.plan(sparsity=0.5).widths, checkpoint)
    own = load_cut(tmp_path / "c")
    assert {parameter.dtype for parameter in own.parameters()} == {torch.bfloat16}
    assert torch.equal(own(**inputs())[0], cut(**inputs())[0])


def test_a_cut_owns_its_weights(checkpoint: Checkpoint, tmp_path: Path) -> None:
    elastic = pliant.Elastic(checkpoint.model, ranking_of(checkpoint.model))
    cut = elastic.cut(sparsity=0.5)
    write_cut(tmp_path / "c", cut, elastic.plan(sparsity=0.5).widths, checkpoint)
    for name, tensor in load_file(tmp_path / "c" / "model.safetensors").items():
        assert torch.equal(tensor, cut.state_dict()[name]) and tensor.is_contiguous()


def test_what_is_there_stays(checkpoint: Checkpoint, tmp_path: Path) -> None:
    ranking = ranking_of(checkpoint.model)
    before = tree(tmp_path)
    with pytest.raises(InputError, match="already exists"):
        write_elastic(tmp_path / "model", checkpoint, ranking)
    with pytest.raises(InputError, match="already exists"):
        pliant.Elastic(checkpoint.model, ranking).save(tmp_path / "model")
    assert tree(tmp_path) == before


def test_only_transformers_models_can_be_saved(tmp_path: Path) -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = BertModel(BertConfig(**TEXT_CONFIG.to_dict()))
            self.main_input_name = "input_ids"

        def forward(self, **tensors: torch.Tensor) -> Any:
            return self.inner(**tensors)

    model = Wrapped().eval()
    elastic = pliant.Elastic(model, ranking_of(model))
    with pytest.raises(InputError, match="Wrapped is no transformers model"):
        elastic.save(tmp_path / "e")
    assert not list(tmp_path.iterdir())


def test_no_such_directory(tmp_path: Path) -> None:
    for load in (load_elastic, load_cut, pliant.load):
        with pytest.raises(InputError, match="No directory at"):
            load(tmp_path / "nowhere")


@pytest.mark.parametrize("widths", [[1], [-1, 8, 0, 8], [99] * 4, ["a"] * 4, [1.5] * 4, None])
def test_widths_of_another_cut(checkpoint: Checkpoint, tmp_path: Path, widths: Any) -> None:
    elastic = pliant.Elastic(checkpoint.model, ranking_of(checkpoint.model))
    write_cut(tmp_path / "c", elastic.cut(sparsity=0.5), elastic.plan(sparsity=0.5).widths, checkpoint)
    manifest = json.loads((tmp_path / "c" / "pliant.json").read_text()) | {"widths": widths}
    (tmp_path / "c" / "pliant.json").write_text(json.dumps(manifest | {"sha256": _checksum(manifest)}))
    with pytest.raises(ArtefactError, match="names the widths"):
        load_cut(tmp_path / "c")


def test_weights_that_do_not_belong_to_a_cut_are_not_read(checkpoint: Checkpoint, tmp_path: Path) -> None:
    elastic = pliant.Elastic(checkpoint.model, ranking_of(checkpoint.model))
    write_cut(tmp_path / "c", elastic.cut(sparsity=0.5), elastic.plan(sparsity=0.5).widths, checkpoint)
    (tmp_path / "c" / "other.safetensors").write_bytes(b"x")
    assert torch.equal(load_cut(tmp_path / "c")(**inputs())[0], elastic.cut(sparsity=0.5)(**inputs())[0])
