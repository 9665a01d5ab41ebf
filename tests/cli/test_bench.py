import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.specimens import inputs, tree
from transformers import AutoModel

import pliant as library
from pliant.speed import Speed
from pliant.times import TIMES, Times

Run = Callable[..., Any]
Refused = Callable[..., str]

SHORT = ("--batches", "1,2", "--rounds", 1, "--tokens", 8, "--sparsity", "0.5,0")


def test_an_elastic_directory(pliant: Run, elastic: Path, tmp_path: Path) -> None:
    before = tree(elastic)
    saved, picture = tmp_path / "new" / "speed.json", tmp_path / "new" / "speed.png"
    result = pliant("bench", elastic, *SHORT, "--cuts", "--json", "--save", saved, "--plot", picture)
    assert (result.status, result.err) == (0, "")
    printed = json.loads(result.out)
    assert printed == json.loads(saved.read_text("utf-8"))
    found = Speed.from_json(printed)
    assert [(size.form, size.sparsity) for size in found.sizes] == [
        ("original", 0.0),
        *(("view", size) for size in (0.0, 0.5)),
        *(("cut", size) for size in (0.0, 0.5)),
    ]
    assert (found.batch_sizes, found.tokens, found.ranker, found.device) == ((1, 2), 8, "soft-mask", "cpu")
    loaded = library.load(elastic)
    assert found.of("view")[1].macs == loaded.cost(loaded.plan(sparsity=0.5), 8).macs
    assert found.switching is not None and found.switching.count > 1
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert tree(elastic) == before


def test_the_table_is_shown_unless_quiet(pliant: Run, elastic: Path) -> None:
    shown, quiet = pliant("bench", elastic, *SHORT), pliant("bench", elastic, *SHORT, "--quiet")
    assert (shown.status, shown.err) == (0, "")
    assert "untouched" in shown.out and "view 50" in shown.out.replace("\N{NO-BREAK SPACE}", " ")
    assert "Note" not in shown.out
    assert (quiet.status, quiet.out, quiet.err) == (0, "", "")


def test_a_model_without_a_ranking(pliant: Run, model: Path) -> None:
    shown = pliant("bench", model, *SHORT)
    assert "Note: This model has no ranking" in shown.out and "ranked by random" in shown.out


def test_images_and_precision(pliant: Run, refused: Refused, vision_model: Path) -> None:
    command = ("bench", vision_model, *SHORT)
    found = Speed.from_json(json.loads(pliant(*command, "--dtype", "bfloat16", "--json").out))
    assert (found.image_size, found.tokens, found.precision) == ((24, 24), 10, "bfloat16")
    assert "can't take these inputs" in refused(*command, "--image-size", 16)


def test_stored_times_make_budgets(pliant: Run, refused: Refused, elastic: Path, tmp_path: Path) -> None:
    asked = ("cut", elastic, "--latency-ms", 1e6, "--out", tmp_path / "cut", "--json")
    assert "there are none" in refused(*asked)
    before = tree(elastic)
    assert pliant("bench", elastic, *SHORT, "--store", "--margin", 0.2).status == 0
    after = tree(elastic)
    assert set(after) - set(before) == {TIMES} and all(after[name] == content for name, content in before.items())
    times = Times.load(elastic)
    assert times is not None and (times.sparsities, times.tokens, times.margin) == ((0.0, 0.5), 8, 0.2)
    loaded = library.load(elastic)
    assert loaded.plan(latency_ms=1e6) == loaded.plan(throughput=1e-6) == loaded.plan(sparsity=0)
    assert json.loads(pliant(*asked).out)["sparsity"] == 0
    assert TIMES not in tree(tmp_path / "cut")
    slow = ("cut", elastic, "--throughput", 1e9, "--out", tmp_path / "no")
    assert "throughput=1000000000.0 can't be met" in refused(*slow)
    assert "measured with 8" in refused(*slow[:2], "--throughput", 1, "--tokens", 9, *slow[4:])


def test_what_cannot_be_stored(refused: Refused, elastic: Path, model: Path) -> None:
    assert "is no elastic directory, which --store keeps times in" in refused("bench", model, *SHORT, "--store")
    assert "--batches must have 1 among them" in refused("bench", elastic, *SHORT, "--batches", "2", "--store")
    for margin in (-1, "nan"):
        assert "means nothing" in refused("bench", elastic, *SHORT, "--store", "--margin", margin)


def test_threads_are_those_asked_for_and_as_before_afterwards(pliant: Run, elastic: Path) -> None:
    before = torch.get_num_threads()
    found = json.loads(pliant("bench", elastic, *SHORT, "--threads", before + 1, "--json").out)
    assert found["threads"] == before + 1 and torch.get_num_threads() == before


def test_what_the_library_wrote_needs_its_tokenizer(pliant: Run, refused: Refused, model: Path, tmp_path: Path) -> None:
    loaded = AutoModel.from_pretrained(model)
    library.Elastic(loaded, library.rank(loaded, [inputs(), inputs()], steps=1)).save(tmp_path / "e")
    assert "has no tokenizer" in refused("bench", tmp_path / "e", *SHORT)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--sparsity", "1"), "sparsity=1.0 is outside [0, 1)"),
        (("--sparsity", "fast"), "--sparsity 'fast' is no list of numbers"),
        (("--batches", "1,half"), "--batches '1,half' is no list of numbers"),
        (("--batches", "0"), "--batches '0' are no numbers of inputs"),
        (("--batches", "1.5"), "--batches '1.5' are no numbers of inputs"),
        (("--batches", "nan"), "--batches 'nan' are no numbers of inputs"),
        (("--batches", "inf"), "--batches 'inf' are no numbers of inputs"),
        (("--rounds", 0), "--rounds 0 is too small"),
        (("--threads", 0), "--threads 0 is too small"),
        (("--tokens", 0), "--tokens 0 is too small"),
        (("--tokens", 41), "41 tokens are too many"),
        (("--image-size", 24), "--image-size 24 is for models of images"),
        (("--device", "toaster"), "--device 'toaster' can't be used here"),
        (("--dtype", "int8"), "Unknown --dtype 'int8'"),
        (("--plot", "speed.svg"), "doesn't end in .png"),
    ],
)
def test_options_that_mean_nothing(
    refused: Refused, elastic: Path, options: tuple[object, ...], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(elastic.parent)
    assert named in refused("bench", elastic, *SHORT, *options)


def test_what_is_read_is_never_written_over(refused: Refused, elastic: Path, model: Path) -> None:
    for directory in (elastic, model):
        assert "would be lost" in refused("bench", directory, *SHORT, "--save", directory / "config.json")
    assert "No model at" in refused("bench", "nowhere/at/all", *SHORT)
