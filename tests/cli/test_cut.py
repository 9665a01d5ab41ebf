import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.specimens import inputs, tree
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

import pliant as library
from pliant.artefacts import load_cut

Run = Callable[..., Any]
Refused = Callable[..., str]


def test_a_cut_is_what_elastic_cut_gives(pliant: Run, elastic: Path, tmp_path: Path) -> None:
    before = tree(elastic)
    result = pliant("cut", elastic, "--sparsity", 0.5, "--out", tmp_path / "small")
    assert (result.status, result.err) == (0, "") and "small holds the cut: sparsity 0.5" in result.out
    loaded, expected = load_cut(tmp_path / "small"), library.load(elastic).cut(sparsity=0.5)
    assert torch.equal(loaded(**inputs()).last_hidden_state, expected(**inputs()).last_hidden_state)
    assert {k: v.shape for k, v in loaded.state_dict().items()} == {
        k: v.shape for k, v in expected.state_dict().items()
    }
    assert not loaded.training and not any(parameter.requires_grad for parameter in loaded.parameters())
    assert tree(elastic) == before
    assert AutoTokenizer.from_pretrained(tmp_path / "small")("the cat")["input_ids"] == [2, 5, 7, 3]


@pytest.mark.parametrize("sparsity", [0, 0.3, 0.6])
def test_the_file_shrinks_with_the_parameters(pliant: Run, elastic: Path, tmp_path: Path, sparsity: float) -> None:
    found = json.loads(pliant("cut", elastic, "--sparsity", sparsity, "--out", tmp_path / "small", "--json").out)
    file = tmp_path / "small" / "model.safetensors"
    assert found["parameters"] == sum(tensor.numel() for tensor in load_file(file).values())
    header = 8 + int.from_bytes(file.read_bytes()[:8], "little")
    assert file.stat().st_size == header + 4 * found["parameters"]
    full = sum(parameter.numel() for parameter in AutoModel.from_pretrained(elastic).parameters())
    assert found["parameters"] == full if sparsity == 0 else found["parameters"] < full


@pytest.mark.parametrize(
    ("budget", "measure"), [(("--params", 12_000), "parameters"), (("--macs", 400_000, "--tokens", 30), "macs")]
)
def test_other_budgets(pliant: Run, elastic: Path, tmp_path: Path, budget: tuple[object, ...], measure: str) -> None:
    found = json.loads(pliant("cut", elastic, *budget, "--out", tmp_path / "small", "--json").out)
    assert 0.7 * float(str(budget[1])) < found[measure] <= float(str(budget[1]))
    assert found["directory"] == str(tmp_path / "small") and len(found["widths"]) == 4


def test_quiet_is_silent(pliant: Run, elastic: Path, tmp_path: Path) -> None:
    result = pliant("cut", elastic, "--sparsity", 0.5, "--out", tmp_path / "small", "--quiet")
    assert (result.status, result.out, result.err) == (0, "", "")


def test_a_cut_is_never_taken_for_the_full_model(pliant: Run, elastic: Path, tmp_path: Path) -> None:
    assert pliant("cut", elastic, "--sparsity", 0.5, "--out", tmp_path / "small").status == 0
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        AutoModel.from_pretrained(tmp_path / "small")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ((), "given: none"),
        (("--sparsity", 0.5, "--params", 9000), "given: sparsity, params"),
        (("--sparsity", 1), "sparsity=1.0 is outside [0, 1)"),
        (("--sparsity", -0.5), "sparsity=-0.5 is outside [0, 1)"),
        (("--sparsity", "nan"), "sparsity=nan is no finite number"),
        (("--sparsity", "abc"), "--sparsity"),
        (("--params", 1), "params=1.0 can't be met"),
        (("--params", 0), "params=0.0 is not positive"),
        (("--params", "inf"), "params=inf is no finite number"),
        (("--macs", 5), "macs=5.0 can't be met"),
        (("--macs", -5), "macs=-5.0 is not positive"),
        (("--sparsity", 0.5, "--tokens", 0), "tokens=0 is no positive integer"),
        (("--sparsity", 0.5, "--tokens", -4), "tokens=-4 is no positive integer"),
        (("--sparsity", 0.5, "--form", "round"), "Unknown --form 'round'. Allowed: exact"),
        (("--sparsity", 0.5, "--format", "pickle"), "Unknown --format 'pickle'. Allowed: torch"),
    ],
)
def test_options_with_a_wrong_value(
    refused: Refused, elastic: Path, tmp_path: Path, options: tuple[object, ...], named: str
) -> None:
    assert named in refused("cut", elastic, "--out", tmp_path / "small", *options)


def test_what_is_at_out_stays(refused: Refused, elastic: Path, texts: Path) -> None:
    for taken in (elastic, texts):
        assert "already exists" in refused("cut", elastic, "--sparsity", 0.5, "--out", taken)


@pytest.mark.parametrize("where", ["texts.txt/below", "n" * 300, "/proc/nowhere/small", ".", ""])
def test_no_place_to_write(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, elastic: Path, tmp_path: Path, where: str
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    out = tmp_path / where if where.startswith(("texts", "n")) else where
    refused("cut", elastic, "--sparsity", 0.5, "--out", out)


def test_a_full_disk(refused: Refused, monkeypatch: pytest.MonkeyPatch, elastic: Path, tmp_path: Path) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pliant.files._flush", full)
    message = refused("cut", elastic, "--sparsity", 0.5, "--out", tmp_path / "small")
    assert "No space left on device" in message


def test_no_such_directory(refused: Refused, model: Path, tmp_path: Path) -> None:
    out = ("--sparsity", 0.5, "--out", tmp_path / "small")
    assert "No directory at" in refused("cut", tmp_path / "nowhere", *out)
    assert "has no pliant.json" in refused("cut", model, *out)
