"""A checkpoint of timm on the command line, from a folder of pictures to a cut."""

import json
from pathlib import Path

import pytest
import torch
from cli.conftest import Refused, Run
from contracts.models import by_name

from pliant.artefacts import load_cut
from pliant.elastic import load

pytest.importorskip("timm")
SPECIMEN = by_name("timm-eva02")


def saved(directory: Path) -> Path:
    SPECIMEN.save(SPECIMEN.model(), directory)
    return directory


def test_from_pictures_to_a_cut(pliant: Run, pictures: Path, tmp_path: Path) -> None:
    model = saved(tmp_path / "model")
    described = json.loads(pliant("describe", model, "--json").out)
    assert (described["family"], described["pooling"], described["units"]) == ("timm_eva", "mean", 96)
    out = tmp_path / "elastic"
    options = ("--out", out, "--steps", 2, "--batch-size", 4, "--json")
    ranked = json.loads(pliant("rank", model, "--data", pictures, *options).out)
    assert (ranked["family"], ranked["pooling"]) == ("timm_eva", "mean")
    measured = pliant("eval", out, "--data", pictures, "--sparsity", "0,0.5", "--json")
    assert measured.status == 0, measured.err
    done = pliant("cut", out, "--sparsity", "0.5", "--out", tmp_path / "cut")
    assert done.status == 0, done.err
    with torch.no_grad():
        mine, whole = load_cut(tmp_path / "cut"), load(out)
        torch.testing.assert_close(mine(SPECIMEN.batch()), whole.at(sparsity=0.5)(SPECIMEN.batch()), atol=1e-5, rtol=0)


def test_a_checkpoint_without_weights(refused: Refused, tmp_path: Path) -> None:
    model = saved(tmp_path / "model")
    (model / "model.safetensors").unlink()
    assert "timm.models.save_for_hf" in refused("describe", model)


def test_an_image_size_that_is_no_multiple_of_the_patch(refused: Refused, pictures: Path, tmp_path: Path) -> None:
    command = ("rank", saved(tmp_path / "model"), "--data", pictures, "--out", tmp_path / "e", "--batch-size", 4)
    assert "should be divisible by patch size (8)" in refused(*command, "--image-size", 20)
