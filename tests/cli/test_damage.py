"""Elastic directories that were moved, damaged, mixed up, or written by a newer pliant."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.specimens import edit_json, inputs, text_model
from safetensors.torch import save_file

import pliant as library
from pliant.artefacts import load_cut, load_elastic
from pliant.ranking import FORMAT

Run = Callable[..., Any]
Refused = Callable[..., str]
FILES = ("config.json", "model.safetensors", "pliant.safetensors", "tokenizer.json", "tokenizer_config.json")


def readmit(directory: Path) -> None:
    """Make the manifest agree with the files as they are now, as a careless person might."""
    manifest = json.loads((directory / "pliant.json").read_text())
    manifest["files"] = {
        name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in manifest["files"]
    }
    del manifest["sha256"]
    manifest["sha256"] = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    (directory / "pliant.json").write_text(json.dumps(manifest))


@pytest.fixture
def check(refused: Refused, elastic: Path, texts: Path, tmp_path: Path) -> Callable[[str], None]:
    """Both commands that read an elastic directory refuse it, with these words."""

    def run(named: str) -> None:
        assert named in refused("eval", elastic, "--data", texts, "--sparsity", "0.5")
        assert named in refused("cut", elastic, "--sparsity", 0.5, "--out", tmp_path / "small")

    return run


def test_a_moved_directory(pliant: Run, elastic: Path, model: Path, texts: Path, tmp_path: Path) -> None:
    expected = library.load(elastic).at(sparsity=0.5)(**inputs()).last_hidden_state
    shutil.rmtree(model)
    moved = tmp_path / "somewhere" / "else"
    moved.parent.mkdir()
    elastic.rename(moved)
    assert torch.equal(library.load(moved).at(sparsity=0.5)(**inputs()).last_hidden_state, expected)
    assert pliant("eval", moved, "--data", texts, "--sparsity", "0.5").status == 0


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_checked(check: Callable[[str], None], elastic: Path, name: str) -> None:
    file = elastic / name
    whole = file.read_bytes()
    damages = (b"", whole[: len(whole) // 2], whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), whole + b"\n")
    for damaged in damages:
        file.write_bytes(damaged)
        check(f"{file} was altered or damaged")
    file.unlink()
    check(f"{file} is missing")


def test_no_file_is_left_unchecked(elastic: Path) -> None:
    listed = set(json.loads((elastic / "pliant.json").read_text())["files"])
    assert listed == set(FILES) == {path.name for path in elastic.iterdir()} - {"pliant.json"}


@pytest.mark.parametrize(
    "change",
    [
        {"class": "GPT2Model"},
        {"class": None},
        {"class": 5},
        {"pooling": "cls"},
        {"form": "cut"},
        {"files": {}},
        {"ranking": {}},
        {"sha256": None},
    ],
)
def test_an_altered_manifest(check: Callable[[str], None], elastic: Path, change: dict[str, Any]) -> None:
    edit_json(elastic / "pliant.json", **change)
    check("pliant.json was altered or damaged")


@pytest.mark.parametrize("change", [{"files": None}, {"format": "1"}, {"format": None}])
def test_a_manifest_without_its_first_things(
    check: Callable[[str], None], elastic: Path, change: dict[str, Any]
) -> None:
    edit_json(elastic / "pliant.json", **change)
    check("pliant.json is damaged")


@pytest.mark.parametrize(
    ("body", "named"), [(b"", "Can't read"), (b"{", "Can't read"), (b"\xff\xfe", "Can't read"), (b"[]", "is damaged")]
)
def test_a_manifest_that_is_none(check: Callable[[str], None], elastic: Path, body: bytes, named: str) -> None:
    (elastic / "pliant.json").write_bytes(body)
    check(named)


def test_no_manifest(check: Callable[[str], None], elastic: Path) -> None:
    (elastic / "pliant.json").unlink()
    check("has no pliant.json")


def test_a_newer_format(check: Callable[[str], None], elastic: Path) -> None:
    edit_json(elastic / "pliant.json", format=FORMAT + 1, something="new")
    check(f"has format {FORMAT + 1}; this pliant reads up to {FORMAT}. Upgrade: pip install -U pliant")


@pytest.mark.parametrize("readmitted", [False, True])
def test_a_ranking_of_another_model(
    pliant: Run,
    check: Callable[[str], None],
    elastic: Path,
    texts: Path,
    tmp_path: Path,
    readmitted: bool,
) -> None:
    other = text_model(tmp_path / "other", seed=1)
    ranked = pliant("rank", other, "--data", texts, "--out", tmp_path / "second", "--ranker", "random")
    assert ranked.status == 0
    shutil.copy(tmp_path / "second" / "pliant.safetensors", elastic)
    if readmitted:
        readmit(elastic)
    check("was made for another model" if readmitted else "pliant.safetensors was altered or damaged")


def test_weights_of_another_model(check: Callable[[str], None], elastic: Path, tmp_path: Path) -> None:
    shutil.copy(text_model(tmp_path / "other", seed=1) / "model.safetensors", elastic)
    readmit(elastic)
    check("was made for another model")


def test_a_ranking_is_checked_by_itself(check: Callable[[str], None], elastic: Path) -> None:
    file = elastic / "pliant.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-4] + b"\0\0\x80\x3f")
    readmit(elastic)
    check("doesn't match its checksum")
    file.write_bytes(whole[:-4])
    readmit(elastic)
    check("is no whole safetensors file")
    save_file({"scores": torch.zeros(104)}, file)
    readmit(elastic)
    check("is a safetensors file, but no ranking")


def test_a_cut_is_checked_too(pliant: Run, elastic: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    assert pliant("cut", elastic, "--sparsity", 0.5, "--out", small).status == 0
    edit_json(small / "pliant.json", widths=[1, 2])
    with pytest.raises(library.PliantError, match=r"pliant\.json was altered"):
        load_cut(small)
    readmit(small)
    (small / "model.safetensors").write_bytes((small / "model.safetensors").read_bytes()[:-1])
    with pytest.raises(library.PliantError, match=r"model\.safetensors was altered"):
        load_cut(small)
    with pytest.raises(library.PliantError, match="is of form 'elastic', not 'cut'"):
        load_cut(elastic)
    with pytest.raises(library.PliantError, match="is of form 'cut', not 'elastic'"):
        load_elastic(small)
