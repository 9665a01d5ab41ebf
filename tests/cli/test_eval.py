import csv
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.specimens import inputs, sentences, tree
from transformers import AutoModel

import pliant as library
from pliant.checkpoint import open_checkpoint
from pliant.data import ImageBatches
from pliant.evaluation import Curve

Run = Callable[..., Any]
Refused = Callable[..., str]


@pytest.fixture
def pairs(tmp_path: Path) -> list[tuple[str, str]]:
    return list(zip(sentences(12, seed=1), sentences(12, seed=2), strict=True))


def test_all_outputs_agree(pliant: Run, elastic: Path, texts: Path, tmp_path: Path) -> None:
    before = tree(elastic)
    page, picture, saved = tmp_path / "new" / "page.html", tmp_path / "new" / "a curve.png", tmp_path / "curves.json"
    layers = tmp_path / "new" / "layers.png"
    sheet = tmp_path / "new" / "curves.csv"
    files = ("--report", page, "--plot", picture, "--kept-plot", layers, "--save", saved, "--csv", sheet)
    options = ("--sparsity", "0.5,0,0.3", "--against", "fisher, random,fisher", "--json")
    result = pliant("eval", elastic, "--data", texts, *options, *files)
    assert (result.status, result.err) == (0, "")
    printed = json.loads(result.out)
    assert printed == json.loads(saved.read_text("utf-8"))
    curves = [Curve.from_json(curve) for curve in printed["curves"]]
    assert [curve.ranker for curve in curves] == ["soft-mask", "fisher", "random"]
    for curve in curves:
        assert [point.sparsity for point in curve.points] == [0.0, 0.3, 0.5]
        assert curve.points[0].value("cosine") == pytest.approx(1) and curve.points[2].metrics["cosine"].value < 0.9999
        assert curve.full_value("ndcg_slim_queries") is None and curve.task == str(texts)
    assert all(image.read_bytes().startswith(b"\x89PNG") for image in (picture, layers))
    assert picture.read_bytes() != layers.read_bytes()
    assert repr(curves[0].points[1].value("cosine")) in page.read_text("utf-8")
    assert tree(elastic) == before
    with sheet.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["ranker"], row["metric"]) == ("fisher", "cosine")]
    assert [float(row["value"]) for row in rows] == [point.metrics["cosine"].value for point in curves[1].points]
    assert float(rows[2]["low"]) < float(rows[2]["value"]) < float(rows[2]["high"])


def test_the_table_is_shown_unless_quiet(pliant: Run, elastic: Path, texts: Path) -> None:
    command = ("eval", elastic, "--data", texts, "--sparsity", "0.5")
    shown, quiet = pliant(*command), pliant(*command, "--quiet")
    assert (shown.status, shown.err) == (0, "") and "soft-mask" in shown.out
    assert (quiet.status, quiet.out, quiet.err) == (0, "", "")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_retrieval(pliant: Run, elastic: Path, tmp_path: Path, pairs: list[tuple[str, str]], suffix: str) -> None:
    table = tmp_path / f"pairs{suffix}"
    with table.open("w", encoding="utf-8", newline="") as file:
        if suffix == ".csv":
            csv.writer(file).writerows([("a question", "an answer"), *pairs])
        else:
            file.writelines(json.dumps({"a question": query, "an answer": text}) + "\n" for query, text in pairs)
    columns = ("--query-column", "a question", "--document-column", "an answer")
    result = pliant("eval", elastic, "--data", table, *columns, "--sparsity", "0,0.5", "--json")
    curve = Curve.from_json(json.loads(result.out)["curves"][0])
    assert 0 < curve.full["ndcg_slim_queries"].value < 1
    assert curve.points[0].value("ndcg_slim_queries") == pytest.approx(curve.full_value("ndcg_slim_queries"))
    assert curve.points[1].value("ndcg_both_slim") is not None


def test_images(pliant: Run, refused: Refused, vision_model: Path, pictures: Path, tmp_path: Path) -> None:
    elastic = tmp_path / "elastic"
    assert (
        pliant("rank", vision_model, "--data", pictures, "--out", elastic, "--batch-size", 4, "--steps", 2).status == 0
    )
    command = ("eval", elastic, "--data", pictures, "--sparsity", "0,0.5")
    result = pliant(*command, "--json", "--against", "random")
    assert result.status == 0, result.err
    first, second = (Curve.from_json(curve) for curve in json.loads(result.out)["curves"])
    assert first.points[0].value("cosine") == pytest.approx(1)
    assert first.points[1].value("cosine") != second.points[1].value("cosine")
    loaded = library.load(elastic)
    paths = sorted(pictures.rglob("*.png"))
    batch = ImageBatches(paths, open_checkpoint(str(elastic)).preprocessor())[0]
    full, half = (loaded.at(sparsity=size)(**batch).last_hidden_state for size in (0.0, 0.5))
    token_cosine = torch.cosine_similarity(full, half, dim=-1).mean().item()
    assert first.points[1].value("token_cosine") == pytest.approx(token_cosine, abs=1e-5)
    assert (first.points[0].value("token_cosine"), first.full_value("ndcg_slim_queries")) == (pytest.approx(1), None)
    shown, page = pliant(*command, "--report", tmp_path / "page.html"), tmp_path / "page.html"
    assert "tokens" in shown.out and "token outputs" in page.read_text("utf-8")
    assert "--image-size 0 is too small" in refused(*command, "--image-size", 0)
    assert "can't take these inputs: Input image size (16*16) doesn't match" in refused(*command, "--image-size", 16)
    assert "model of texts" in refused(*command, "--query-column", "a", "--document-column", "b")
    damaged = pictures / "0.png"
    damaged.write_bytes(b"no image")
    assert str(damaged) in refused(*command)


def test_what_the_library_wrote_is_measured_too(
    pliant: Run, refused: Refused, model: Path, texts: Path, tmp_path: Path
) -> None:
    loaded = AutoModel.from_pretrained(model)
    ranking = library.rank(loaded, [inputs(), inputs()], steps=1)
    library.Elastic(loaded, ranking).save(tmp_path / "e")
    assert "has no tokenizer" in refused("eval", tmp_path / "e", "--data", texts, "--sparsity", "0.5")
    for file in model.glob("tokenizer*"):
        shutil.copy(file, tmp_path / "e")
    command = ("eval", tmp_path / "e", "--data", texts, "--sparsity", "0.5")
    found = json.loads(pliant(*command, "--json").out)
    assert found["curves"][0]["model"] == str(tmp_path / "e")
    assert "Pass --calibration" in refused(*command, "--against", "fisher")
    assert pliant(*command, "--against", "fisher", "--calibration", texts, "--inputs", 32).status == 0


def test_calibration_data_that_has_moved(pliant: Run, refused: Refused, elastic: Path, texts: Path) -> None:
    moved = texts.rename(texts.with_name("moved.txt"))
    command = ("eval", elastic, "--data", moved, "--sparsity", "0.5", "--against", "random")
    assert f"{texts} does not exist" in refused(*command)
    assert pliant(*command, "--calibration", moved).status == 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--sparsity", "1"), "sparsity=1.0 is outside [0, 1)"),
        (("--sparsity", "-0.1"), "sparsity=-0.1 is outside [0, 1)"),
        (("--sparsity", "0.3,1.5"), "sparsity=1.5 is outside [0, 1)"),
        (("--sparsity", "nan"), "sparsity=nan is no finite number"),
        (("--sparsity", "inf"), "sparsity=inf is no finite number"),
        (("--sparsity", "abc"), "--sparsity 'abc' is no list of numbers"),
        (("--sparsity", "0.3;0.4"), "is no list of numbers"),
        (("--sparsity", ""), "--sparsity '' is no list of numbers"),
        (("--against", "fisher,best"), "Unknown --against 'best'. Allowed: soft-mask"),
        (("--tasks", "sst"), "Unknown --tasks 'sst'. Allowed: fidelity, dense, retrieval"),
        (("--tasks", ""), "Unknown --tasks"),
        (("--tasks", "knn"), "is no table"),
        (("--tasks", "sts"), "is no table"),
        (("--tasks", "fidelity,nowhere:f"), "no module 'nowhere'"),
        (("--tasks", "json:f"), "json has no function 'f'"),
        (("--data", "more.txt"), "Two --data"),
        (("--data", "knn=a.csv", "--data", "knn=b.csv"), "Two --data for knn: a.csv and b.csv"),
        (("--data", "knn=a.csv", "--tasks", "sts"), "--data is given for knn, which is not in --tasks sts"),
        (("--data", "knn=a.csv"), "a.csv does not exist"),
        (("--tasks", "retrieval"), "Retrieval needs"),
        (("--query-column", "text"), "Retrieval needs"),
        (("--document-column", "text"), "Retrieval needs"),
        (("--query-column", "a", "--document-column", "b"), "is no table"),
        (("--batch-size", "0"), "--batch-size 0 is too small"),
        (("--batch-size", "-2"), "--batch-size -2 is too small"),
        (("--inputs", "0"), "--inputs 0 is too small"),
        (("--max-tokens", "-1"), "--max-tokens -1 is too small"),
        (("--image-size", "-1"), "--image-size -1 is too small"),
        (("--image-size", "224"), "--image-size 224 is for models of images"),
    ],
)
def test_options_with_a_wrong_value(
    refused: Refused, elastic: Path, texts: Path, options: tuple[str, ...], named: str
) -> None:
    assert named in refused("eval", elastic, "--data", texts, *options)


def test_data_that_cannot_be_used(refused: Refused, elastic: Path, tmp_path: Path) -> None:
    command = ("eval", elastic, "--sparsity", "0.5")
    assert "nothing to measure on" in refused(*command)
    assert "does not exist" in refused(*command, "--data", tmp_path / "nowhere")
    (tmp_path / "empty.txt").touch()
    assert "is empty or blank" in refused(*command, "--data", tmp_path / "empty.txt")
    (tmp_path / "table.csv").write_text("query,document\na cat,a dog\n")
    table = ("--data", tmp_path / "table.csv")
    assert "no column 'question'" in refused(*command, *table, "--column", "question")
    assert "no column 'c'" in refused(*command, *table, "--query-column", "query", "--document-column", "c")


@pytest.mark.parametrize("option", ["--report", "--plot", "--kept-plot", "--save", "--csv"])
def test_no_place_to_write(refused: Refused, elastic: Path, texts: Path, option: str) -> None:
    command = ("eval", elastic, "--data", texts, "--sparsity", "0.5")
    for place in (texts / "below", "/proc/nowhere/file", texts.parent):
        assert f"Can't write {place}" in refused(*command, option, place)


def test_outputs_are_refused_before_the_measurement(
    refused: Refused, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("eval", tmp_path / "nowhere", "--data", texts)
    assert "Can't write" in refused(*command, "--report", texts / "below")
    assert "doesn't end in .png" in refused(*command, "--plot", tmp_path / "deep" / "curve.svg")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for option in ("--plot", "--kept-plot"):
        assert "pliant[demo]" in refused(*command, option, tmp_path / "curve.png")


def test_directories_of_other_kinds(pliant: Run, refused: Refused, elastic: Path, model: Path, texts: Path) -> None:
    assert "No directory at" in refused("eval", elastic / "nowhere", "--data", texts)
    assert "No directory at" in refused("eval", texts, "--data", texts)
    assert "has no pliant.json" in refused("eval", model, "--data", texts)
    small = elastic.with_name("small")
    assert pliant("cut", elastic, "--sparsity", 0.5, "--out", small).status == 0
    assert "is of form 'cut', not 'elastic'" in refused("eval", small, "--data", texts)
    assert "is a standalone cut" in refused("describe", small)
    assert "is a standalone cut" in refused("rank", small, "--data", texts, "--out", elastic.with_name("new"))


def test_token_rankings_are_not_measured_by_embeddings(
    pliant: Run, refused: Refused, model: Path, texts: Path, tmp_path: Path
) -> None:
    options = ("--out", tmp_path / "e", "--ranker", "random", "--pooling", "tokens")
    assert pliant("rank", model, "--data", texts, *options).status == 0
    assert "'tokens'" in refused("eval", tmp_path / "e", "--data", texts, "--sparsity", "0.5")


def test_the_result_is_that_of_the_library(pliant: Run, elastic: Path, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("the cat sat\n")
    result = pliant("eval", elastic, "--data", tmp_path / "one.txt", "--sparsity", "0.5", "--json")
    point = json.loads(result.out)["curves"][0]["points"][0]
    loaded = library.load(elastic)
    tokens = {"input_ids": torch.tensor([[2, 5, 7, 9, 3]])}
    full, half = (loaded.at(sparsity=size)(**tokens).last_hidden_state.mean(1) for size in (0.0, 0.5))
    assert point["cosine"] == pytest.approx(torch.cosine_similarity(full, half).item(), abs=1e-5)
    assert point["parameters"] == loaded.cost(loaded.plan(sparsity=0.5)).parameters


def test_one_file_for_two_results(refused: Refused, elastic: Path, texts: Path, tmp_path: Path) -> None:
    assert "can't hold two results" in refused("eval", elastic, "--data", texts, "--csv", "a", "--save", "a")
    twice = ("--report", tmp_path / "a", "--save", tmp_path / "b" / ".." / "a")
    assert "can't hold two results" in refused("eval", elastic, "--data", texts, *twice)
