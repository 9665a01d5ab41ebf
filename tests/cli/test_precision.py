"""Models of sixteen bits, and other precisions than the checkpoint's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.specimens import TEXT_CONFIG, save, save_tokenizer
from transformers import BertModel

import pliant as library
from pliant.artefacts import load_elastic
from pliant.checkpoint import open_checkpoint
from pliant.errors import InputError

Run = Callable[..., Any]
Refused = Callable[..., str]
DTYPES = ("float32", "bfloat16", "float16")
SHORT = ("--steps", 2, "--batch-size", 8)


@pytest.fixture(params=DTYPES)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A checkpoint in one of the precisions."""
    torch.manual_seed(0)
    save(BertModel(TEXT_CONFIG).to(getattr(torch, request.param)), tmp_path / "model")
    save_tokenizer(tmp_path / "model")
    return tmp_path / "model", request.param


@pytest.mark.parametrize("dtype", ["auto", *DTYPES])
def test_ranked_in_any_precision_and_used_in_its_own(
    pliant: Run, stored: tuple[Path, str], texts: Path, tmp_path: Path, dtype: str
) -> None:
    """An elastic directory holds the checkpoint as it was, whatever it was ranked in."""
    model, own = stored
    out = tmp_path / "e"
    result = pliant("rank", model, "--data", texts, "--out", out, *SHORT, "--dtype", dtype)
    assert result.status == 0, result.err
    checkpoint, ranking = load_elastic(out)
    assert ranking.provenance["dtype"] == (own if dtype == "auto" else dtype)
    assert ranking.scores.dtype == torch.float32 and all(rest.dtype == torch.float32 for rest in ranking.rest)
    assert {str(parameter.dtype) for parameter in checkpoint.model.parameters()} == {f"torch.{own}"}
    assert (out / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    library.load(out)
    for other in DTYPES:
        library.Elastic(open_checkpoint(str(out), other).model, ranking)
    command = ("eval", out, "--data", texts, "--sparsity", "0,0.5", "--json")
    points = json.loads(pliant(*command).out)["curves"][0]["points"]
    assert points[0]["cosine"] == pytest.approx(1, abs=1e-3) and points[1]["cosine"] < 0.99
    assert pliant("cut", out, "--sparsity", 0.5, "--out", tmp_path / "small").status == 0
    cut = library.load_cut(tmp_path / "small")
    assert {str(parameter.dtype) for parameter in cut.parameters()} == {f"torch.{own}"}


def test_describe_says_which(pliant: Run, stored: tuple[Path, str]) -> None:
    model, own = stored
    assert json.loads(pliant("describe", model, "--json").out)["dtype"] == own
    assert f"objective pooled, {own}" in pliant("describe", model).out


def test_precisions_that_are_not_known(refused: Refused, model: Path, texts: Path, tmp_path: Path) -> None:
    message = refused("rank", model, "--data", texts, "--out", tmp_path / "e", "--dtype", "int8")
    assert "Unknown dtype 'int8'. Allowed: auto, bfloat16, float16, float32" in message
    with pytest.raises(InputError, match="Unknown dtype 'double'"):
        open_checkpoint(str(model), "double")


def test_images_in_sixteen_bits(pliant: Run, vision_model: Path, pictures: Path, tmp_path: Path) -> None:
    options = ("--batch-size", 4, "--steps", 2, "--dtype", "bfloat16")
    result = pliant("rank", vision_model, "--data", pictures, "--out", tmp_path / "e", *options)
    assert result.status == 0, result.err


@pytest.mark.parametrize("ranker", ["soft-mask", "fisher"])
def test_checkpointing_gives_the_same_ranking(
    pliant: Run, model: Path, texts: Path, tmp_path: Path, ranker: str
) -> None:
    command = ("rank", model, "--data", texts, "--ranker", ranker, *SHORT)
    assert pliant(*command, "--out", tmp_path / "a").status == 0
    assert pliant(*command, "--out", tmp_path / "b", "--checkpointing").status == 0
    kept, again = (load_elastic(tmp_path / name)[1] for name in ("a", "b"))
    assert torch.equal(kept.scores, again.scores) and all(map(torch.equal, kept.rest, again.rest))
    assert kept.provenance == again.provenance


def test_checkpointing_with_a_preset_that_is_none(refused: Refused, model: Path, texts: Path, tmp_path: Path) -> None:
    command = ("rank", model, "--data", texts, "--out", tmp_path / "e", "--checkpointing", "--preset", "slow")
    assert "Unknown preset 'slow'" in refused(*command)
