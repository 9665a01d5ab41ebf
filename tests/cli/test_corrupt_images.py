"""Corrupt images among good ones, in what is ranked on and in what is measured on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli.specimens import images

Run = Callable[..., Any]
Refused = Callable[..., str]

OPTIONS = ("--batch-size", 2, "--steps", 1)


def corrupted(folder: Path, *names: str) -> list[str]:
    """The paths of images with these names, which are cut off in the middle."""
    found = [next(folder.rglob(name)) for name in names]
    for file in found:
        file.write_bytes(file.read_bytes()[:100])
    return [str(file) for file in found]


@pytest.fixture
def sorted_pictures(tmp_path: Path) -> Path:
    """Images in sub-folders by class."""
    folder = images(tmp_path / "sorted")
    (folder / "others").mkdir()
    for file in folder.glob("*.png"):
        file.rename(folder / "others" / file.name)
    return folder


@pytest.fixture
def elastic(pliant: Run, vision_model: Path, pictures: Path, tmp_path: Path) -> Path:
    ranked = pliant("rank", vision_model, "--data", pictures, "--out", tmp_path / "elastic", *OPTIONS)
    assert ranked.status == 0, ranked.err
    return tmp_path / "elastic"


def test_ranking(pliant: Run, refused: Refused, vision_model: Path, pictures: Path, tmp_path: Path) -> None:
    bad = corrupted(pictures, "3.png", "4.png")
    command = ("rank", vision_model, "--data", pictures, *OPTIONS, "--out", tmp_path / "elastic")
    message = refused(*command)
    assert "2 of 12 images can't be read" in message and all(name in message for name in bad)
    result = pliant(*command, "--skip-corrupt")
    assert result.status == 0, result.err
    assert "Note: left out 2 images that can't be read:" in result.out and all(name in result.out for name in bad)
    about = json.loads(pliant(*command[:-1], tmp_path / "other", "--skip-corrupt", "--json").out)
    assert sorted(about["skipped"]) == sorted(bad) and about["calibration"]["skip_corrupt"] is True
    # Nor do other rankers that are compared with it stumble over them.
    against = ("--against", "magnitude", "--sparsity", "0.5", "--skip-corrupt", "--json")
    measured = pliant("eval", tmp_path / "elastic", "--data", pictures, *against)
    assert measured.status == 0, measured.err
    assert sorted(json.loads(measured.out)["skipped"]) == sorted(bad)


def test_measuring(pliant: Run, refused: Refused, elastic: Path, sorted_pictures: Path, tmp_path: Path) -> None:
    good = ("eval", elastic, "--data", sorted_pictures, "--tasks", "fidelity,knn", "--sparsity", "0.5")
    assert "skipped" not in json.loads(pliant(*good, "--skip-corrupt", "--json").out)
    bad = corrupted(sorted_pictures, "1.png", "0.png", "5.png")
    message = refused(*good)
    assert "3 of 12 images can't be read" in message and all(name in message for name in bad)
    files = ("--save", tmp_path / "c.json", "--report", tmp_path / "r.html")
    result = pliant(*good, "--skip-corrupt", *files)
    assert result.status == 0, result.err
    assert "Note: left out 3 images that can't be read:" in result.out and all(name in result.out for name in bad)
    saved = json.loads((tmp_path / "c.json").read_text("utf-8"))
    assert sorted(saved["skipped"]) == sorted(bad)
    for name in bad:
        Path(name).unlink()
    without = json.loads(pliant(*good, "--json").out)["curves"][0]["points"][0]["cosine"]
    assert saved["curves"][0]["points"][0]["cosine"] == pytest.approx(without, abs=1e-6)


def test_examples_are_looked_at_too(refused: Refused, pliant: Run, elastic: Path, sorted_pictures: Path) -> None:
    command = ("eval", elastic, "--data", sorted_pictures, "--tasks", "knn", "--sparsity", "0.5")
    examples = images(sorted_pictures.parent / "examples") / "more"
    (examples.parent / "others").mkdir()
    for file in examples.parent.glob("*.png"):
        file.rename(examples.parent / "others" / file.name)
    bad = corrupted(examples, "2.png")
    assert bad[0] in refused(*command, "--train-data", examples.parent)
    found = json.loads(pliant(*command, "--train-data", examples.parent, "--skip-corrupt", "--json").out)
    assert found["skipped"] == bad


def test_texts_have_no_corrupt_images(refused: Refused, model: Path, texts: Path, tmp_path: Path) -> None:
    command = ("rank", model, "--data", texts, "--out", tmp_path / "out", "--skip-corrupt")
    assert "--skip-corrupt is for folders of images" in refused(*command)
