"""timm's checkpoints: opened by directory and by name, ranked, cut, saved and loaded again."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.specimens import edit_json, tree
from contracts.models import by_name
from contracts.timm_models import is_at_least
from PIL import Image
from safetensors.torch import load_file, save_file

import pliant
from pliant import timm_hub
from pliant.artefacts import load_cut, write_cut, write_elastic
from pliant.checkpoint import open_checkpoint
from pliant.errors import ArtefactError, InputError
from pliant.rankers.rank import rank

pytest.importorskip("timm")
VIT, EVA = by_name("timm-layer-scale"), by_name("timm-eva02")
records = pytest.mark.skipif(not is_at_least(1, 0, 31), reason="older releases don't record a model's arguments")


@pytest.fixture(params=["timm-layer-scale", "timm-eva02"])
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A checkpoint, the first of the two with a classifier."""
    specimen = by_name(request.param)
    specimen.save(specimen.model(), tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    VIT.save(VIT.model(), tmp_path / "model")
    return tmp_path / "model"


def outputs(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(VIT.batch())


def ranked(model: Any) -> pliant.Ranking:
    return rank(model, VIT.batches(), ranker="random")


def test_a_checkpoint_is_opened_without_its_classifier(saved: Path) -> None:
    import timm

    checkpoint = open_checkpoint(str(saved))
    assert (checkpoint.inputs, checkpoint.pooling) == ("image", None)
    assert not checkpoint.model.training
    stock = timm.create_model(f"local-dir:{saved}", pretrained=True, num_classes=0)
    assert torch.equal(outputs(checkpoint.model), outputs(stock))
    assert checkpoint.model.state_dict().keys() == stock.state_dict().keys()


def test_images_are_prepared_as_timm_does(model: Path) -> None:
    from timm.data.transforms_factory import create_transform

    edit_config(model, mean=[0.1, 0.2, 0.3], interpolation="bilinear", crop_pct=1.0)
    checkpoint = open_checkpoint(str(model))
    image = Image.new("RGB", (9, 5), "red")
    (pixels,) = checkpoint.preprocessor()(images=[image], return_tensors="pt").values()
    stock = create_transform((3, 24, 24), mean=(0.1, 0.2, 0.3), interpolation="bilinear", crop_pct=1.0)
    assert list(pixels.shape) == [1, 3, 24, 24]
    assert callable(stock)
    torch.testing.assert_close(pixels[0], stock(image))
    (larger,) = checkpoint.preprocessor()(images=[image], size={"height": 32, "width": 40}).values()
    assert list(larger.shape) == [1, 3, 32, 40]


def edit_config(directory: Path, **changes: Any) -> None:
    config = json.loads((directory / "config.json").read_text())
    edit_json(directory / "config.json", pretrained_cfg={**config["pretrained_cfg"], **changes})


def test_a_checkpoint_keeps_its_own_precision(tmp_path: Path) -> None:
    VIT.save(VIT.model().bfloat16(), tmp_path / "half")
    model = open_checkpoint(str(tmp_path / "half")).model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


def test_written_and_read(saved: Path, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(str(saved))
    write_elastic(tmp_path / "e", checkpoint, ranked(checkpoint.model))
    assert (tmp_path / "e" / "model.safetensors").read_bytes() == (saved / "model.safetensors").read_bytes()
    elastic = pliant.load(tmp_path / "e")
    torch.testing.assert_close(outputs(elastic.model), outputs(checkpoint.model), atol=1e-6, rtol=0)
    cut = elastic.cut(sparsity=0.6)
    opened = open_checkpoint(str(tmp_path / "e"))
    write_cut(tmp_path / "c", cut, elastic.plan(sparsity=0.6).widths, opened)
    again = load_cut(tmp_path / "c")
    torch.testing.assert_close(outputs(again), outputs(cut), atol=1e-6, rtol=0)
    assert all(torch.equal(mine, its) for mine, its in zip(again.parameters(), cut.parameters(), strict=True))
    assert not set(tree(tmp_path / "c")) - {"config.json", "model.safetensors", "pliant.json"}


@records
@pytest.mark.parametrize("specimen", [VIT, EVA], ids=lambda specimen: specimen.name)
def test_a_model_in_memory_keeps_its_classifier(specimen: Any, tmp_path: Path) -> None:
    elastic = pliant.Elastic(specimen.model(), ranked(specimen.model()))
    elastic.save(tmp_path / "e")
    assert outputs(specimen.load(tmp_path / "e")).shape[1] == (5 if specimen is VIT else 32)
    torch.testing.assert_close(outputs(specimen.load(tmp_path / "e")), outputs(specimen.model()), atol=1e-6, rtol=0)
    again = pliant.load(tmp_path / "e")
    torch.testing.assert_close(outputs(again.at(sparsity=0.5)), outputs(elastic.at(sparsity=0.5)), atol=1e-6, rtol=0)
    stock = load_file(tmp_path / "e" / "model.safetensors")
    assert all(torch.equal(tensor, stock[name]) for name, tensor in specimen.model().state_dict().items())


def test_a_cut_in_bfloat16(tmp_path: Path) -> None:
    EVA.save(EVA.model().bfloat16(), tmp_path / "half")
    checkpoint = open_checkpoint(str(tmp_path / "half"))
    elastic = pliant.Elastic(checkpoint.model, rank(EVA.model(), EVA.batches(), ranker="random"))
    cut = elastic.cut(sparsity=0.5).requires_grad_(False)
    write_cut(tmp_path / "c", cut, elastic.plan(sparsity=0.5).widths, checkpoint)
    with torch.no_grad():
        batch = EVA.batch().bfloat16()
        torch.testing.assert_close(load_cut(tmp_path / "c")(batch), cut(batch), atol=0.02, rtol=0)


def test_a_model_whose_making_is_not_known(tmp_path: Path) -> None:
    from timm.models.vision_transformer import VisionTransformer

    model = VisionTransformer(img_size=24, patch_size=8, embed_dim=32, depth=1, num_heads=4, num_classes=0)
    elastic = pliant.Elastic(model, ranked(model))
    with pytest.raises(InputError, match=r"nor made by timm\.create_model"):
        elastic.save(tmp_path / "e")
    assert not tree(tmp_path)


def test_a_model_that_was_changed_after_its_making(tmp_path: Path) -> None:
    model = VIT.model()
    del model.blocks[1]
    elastic = pliant.Elastic(model, ranked(model))
    with pytest.raises(InputError, match="record of how it was made gives another model"):
        elastic.save(tmp_path / "e")
    assert not tree(tmp_path)


@records
def test_arguments_that_json_cannot_hold(tmp_path: Path) -> None:
    model = VIT.model()
    model._model_args = {**model._model_args, "act_layer": torch.nn.ReLU}
    elastic = pliant.Elastic(model, ranked(model))
    with pytest.raises(InputError, match="act_layer"):
        elastic.save(tmp_path / "e")


DAMAGES: dict[str, str] = {
    "no weights": r"has no model\.safetensors",
    "a weight is missing": r"lacks the weights \['blocks\.0\.attn\.proj\.weight'\]",
    "an unknown weight": r"unknown ones \['stranger'\]",
    "another shape": r"size mismatch|Can't read the model",
    "an unknown architecture": r"Can't read the model",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged(damage: str, model: Path) -> None:
    weights = load_file(model / "model.safetensors")
    if damage == "no weights":
        (model / "model.safetensors").unlink()
    elif damage == "an unknown architecture":
        edit_json(model / "config.json", architecture="vit_enormous_patch3")
    else:
        if damage == "a weight is missing":
            del weights["blocks.0.attn.proj.weight"]
        if damage == "an unknown weight":
            weights["stranger"] = torch.zeros(1)
        if damage == "another shape":
            weights["blocks.0.attn.proj.weight"] = torch.zeros(3, 3)
        save_file(weights, model / "model.safetensors")
    with pytest.raises(InputError, match=DAMAGES[damage]):
        open_checkpoint(str(model))


def test_a_cut_is_not_opened_as_a_model(model: Path, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(str(model))
    elastic = pliant.Elastic(checkpoint.model, ranked(checkpoint.model))
    write_cut(tmp_path / "c", elastic.cut(sparsity=0.5), elastic.plan(sparsity=0.5).widths, checkpoint)
    with pytest.raises(InputError, match="standalone cut"):
        open_checkpoint(str(tmp_path / "c"))
    weights = load_file(tmp_path / "c" / "model.safetensors")
    weights.pop("norm.weight")
    save_file(weights, tmp_path / "c" / "model.safetensors")
    with pytest.raises(ArtefactError, match="altered or damaged"):
        load_cut(tmp_path / "c")


def test_names() -> None:
    assert timm_hub.repository("vit_small_patch14_dinov2.lvd142m") == "timm/vit_small_patch14_dinov2.lvd142m"
    assert (timm_hub.repository("vit_small_patch14_dinov2") or "").startswith("timm/vit_small_patch14_dinov2.")
    unknown = ("vit_small_patch14_dinov2.strange", "my_own_model", "bert-base-uncased", "gpt2", "timm/vit")
    assert not any(timm_hub.repository(name) for name in unknown)


@pytest.mark.parametrize("name", ["timm/vit_small_patch14_dinov2.lvd142m", "vit_small_patch14_dinov2.lvd142m"])
def test_a_name_on_the_hub(name: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def download(repository: str, **options: Any) -> str:
        asked.append(repository)
        return str(model)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    checkpoint = open_checkpoint(name)
    assert (asked, checkpoint.name) == (["timm/vit_small_patch14_dinov2.lvd142m"], name)


def test_weights_that_timm_has_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """timm leaves only the weights in the hub's cache: what the model is, its name says."""
    import timm

    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **options: str(tmp_path / "cached"))
    torch.manual_seed(0)
    full: Any = timm.create_model("test_vit.r160_in1k").eval()
    (tmp_path / "cached").mkdir()
    save_file(full.state_dict(), tmp_path / "cached" / "model.safetensors")
    checkpoint = open_checkpoint("test_vit.r160_in1k")
    batch = torch.randn(2, 3, 160, 160)
    with torch.no_grad():
        expected = full.forward_head(full.forward_features(batch), pre_logits=True)
        torch.testing.assert_close(checkpoint.model(batch), expected)
    ranking = rank(checkpoint.model, [batch, batch], ranker="random")
    write_elastic(tmp_path / "e", checkpoint, ranking)
    elastic = pliant.load(tmp_path / "e")
    write_cut(tmp_path / "c", elastic.cut(sparsity=0.5), elastic.plan(sparsity=0.5).widths, checkpoint)
    with torch.no_grad():
        torch.testing.assert_close(elastic.model(batch), expected, atol=1e-5, rtol=0)
        again = load_cut(tmp_path / "c")
        torch.testing.assert_close(again(batch), elastic.at(sparsity=0.5)(batch), atol=1e-5, rtol=0)
