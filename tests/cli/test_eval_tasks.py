"""`pliant eval` on every task, with a tiny model."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.specimens import SIZES, VOCABULARY, images, save_tokenizer, sentences, tree
from transformers import BertConfig, BertForSequenceClassification

import pliant as library
from pliant.evaluation import Curve

Run = Callable[..., Any]
Refused = Callable[..., str]

HALF = ("--sparsity", "0,0.5", "--json")


def curve_of(result: Any) -> Curve:
    assert result.status == 0, result.err
    (curve,) = json.loads(result.out)["curves"]
    return Curve.from_json(curve)


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """Texts of two classes that share no word."""
    table = tmp_path / "labelled.jsonl"
    generator = random.Random(0)
    words = {"animals": "cat dog bird fish".split(), "things": "house tree mat under".split()}
    rows = [
        {"text": " ".join(generator.choices(words[name], k=4)), "intent": name} for name in words for _ in range(20)
    ]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return table


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    table = tmp_path / "pairs.csv"
    both = zip(sentences(12, seed=1), sentences(12, seed=2), strict=True)
    rows = [f"{one},{other},{index % 5}" for index, (one, other) in enumerate(both)]
    table.write_text("\n".join(["sentence1,sentence2,score", *rows]))
    return table


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    folder = tmp_path / "collection"
    (folder / "qrels").mkdir(parents=True)
    for name, seed, letter in (("corpus", 1, "d"), ("queries", 2, "q")):
        rows = [{"_id": f"{letter}{i}", "text": text} for i, text in enumerate(sentences(12, seed=seed))]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judged = [f"q{i}\td{i}\t{1 + i % 2}" for i in range(8)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return folder


def test_classes(pliant: Run, elastic: Path, labelled: Path) -> None:
    tasks = ("--tasks", "fidelity,knn,probe,clustering", "--label-column", "intent")
    curve = curve_of(pliant("eval", elastic, "--data", labelled, *tasks, *HALF))
    names = ("knn_both_slim", "knn_slim_queries", "probe_refitted", "probe_kept", "v_measure")
    assert curve.metrics == ("cosine", "worst_cosine", "cka", *names)
    assert curve.points[0].metrics == curve.full
    assert all(0 <= curve.points[1].metrics[name].value <= 1 for name in names)
    assert curve.full["probe_refitted"].value > 0.6
    shown = pliant("eval", elastic, "--data", labelled, "--label-column", "intent", "--sparsity", "0.5")
    assert "knn" in shown.out and "probe" not in shown.out and "±" in shown.out


def test_examples_of_their_own(pliant: Run, refused: Refused, elastic: Path, labelled: Path) -> None:
    command = ("eval", elastic, "--data", labelled, "--tasks", "knn", "--label-column", "intent")
    curve = curve_of(pliant(*command, "--train-data", labelled, *HALF))
    assert curve.metrics == ("knn_both_slim", "knn_slim_queries")
    assert "does not exist" in refused(*command, "--train-data", labelled.with_name("nowhere.csv"))


def test_sts_and_several_data(pliant: Run, refused: Refused, elastic: Path, pairs: Path, labelled: Path) -> None:
    data = ("--data", f"sts={pairs}", "--data", f"knn={labelled}", "--label-column", "intent")
    curve = curve_of(pliant("eval", elastic, *data, *HALF))
    assert curve.task == f"{labelled}, {pairs}" or curve.task == f"{pairs}, {labelled}"
    assert {"cosine", "knn_both_slim", "sts_spearman"} <= set(curve.metrics)
    assert -1 <= curve.points[1].metrics["sts_spearman"].value <= 1
    command = ("eval", elastic, "--data", pairs, "--sparsity", "0.5")
    assert "no column 'gold'" in refused(*command, "--score-column", "gold")
    assert "names 1 columns" in refused(*command, "--pair-columns", "a")
    assert curve_of(pliant(*command, "--score-column", "score", "--json")).full["sts_spearman"]


def test_a_collection(pliant: Run, refused: Refused, elastic: Path, collection: Path) -> None:
    command = ("eval", elastic, "--data", collection, *HALF)
    curve = curve_of(pliant(*command))
    assert {f"{score}_{mode}" for score in ("ndcg", "recall", "mrr") for mode in ("slim_queries", "both_slim")} < {
        *curve.metrics
    }
    assert curve_of(pliant(*command, "--inputs", 4)).full != curve.full
    (collection / "queries.jsonl").unlink()
    assert "has no queries.jsonl" in refused(*command)


def test_images_in_folders_by_class(
    pliant: Run,
    refused: Refused,
    vision_model: Path,
    pictures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elastic = tmp_path / "elastic"
    ranked = pliant("rank", vision_model, "--data", pictures, "--out", elastic, "--batch-size", 4, "--steps", 1)
    assert ranked.status == 0, ranked.err
    sorted_by_class = images(tmp_path / "sorted", 12)
    command = ("eval", elastic, "--data", sorted_by_class, "--tasks", "fidelity,dense,knn", *HALF)
    assert "is in no sub-folder" in refused(*command)
    (sorted_by_class / "others").mkdir()
    for file in sorted_by_class.glob("*.png"):
        file.rename(sorted_by_class / "others" / file.name)
    curve = curve_of(pliant(*command))
    assert set(curve.metrics) >= {"cosine", "token_cosine", "knn_both_slim"}
    image = next(sorted_by_class.rglob("*.png"))
    (tmp_path / "looks.py").write_text(f"def first(slim, full):\n    return slim([{str(image)!r}])[0, 0]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    looks = ("eval", elastic, "--tasks", "looks:first", *HALF)
    before = curve_of(pliant(*looks))
    image.write_bytes(next(file for file in sorted(sorted_by_class.rglob("*.png")) if file != image).read_bytes())
    assert curve_of(pliant(*looks)).full != before.full
    monkeypatch.delitem(sys.modules, "looks")
    assert "for models of texts" in refused("eval", elastic, "--data", sorted_by_class, "--tasks", "sts")
    assert "model of texts" in refused("eval", elastic, "--data", sorted_by_class, "--tasks", "retrieval")


def test_a_function_of_the_user_s(
    pliant: Run, refused: Refused, elastic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clicks.py").write_text(
        "def agreement(slim, full):\n"
        "    texts = ['the cat sat', 'a dog ran']\n"
        "    ours, theirs = slim(texts), full(texts)\n"
        "    return {'cosine': (ours * theirs).sum(1) / ours.norm(dim=1) / theirs.norm(dim=1)}\n"
        "def broken(slim, full):\n"
        "    return 'high'\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    curve = curve_of(pliant("eval", elastic, "--tasks", "clicks:agreement", *HALF))
    assert curve.metrics == ("agreement.cosine",) and curve.task == "clicks:agreement"
    full, half = (point.metrics["agreement.cosine"] for point in curve.points)
    assert full.value == pytest.approx(1, abs=1e-5) and half.value < 0.9999 and half.low is not None
    assert "broken returned 'high'" in refused("eval", elastic, "--tasks", "clicks:broken", "--sparsity", "0.5")
    monkeypatch.delitem(sys.modules, "clicks")


def test_a_model_with_a_head(pliant: Run, refused: Refused, elastic: Path, tmp_path: Path) -> None:
    names = ["animals", "things"]
    config = BertConfig(vocab_size=VOCABULARY, max_position_embeddings=40, **SIZES)
    config.id2label, config.label2id = dict(enumerate(names)), {name: i for i, name in enumerate(names)}
    torch.manual_seed(0)
    model = BertForSequenceClassification(config).eval()
    ids = torch.randint(5, VOCABULARY, (4, 9), generator=torch.Generator().manual_seed(1))
    ranking = library.rank(model, [{"input_ids": ids}] * 2, ranker="magnitude", rest="zero")
    library.Elastic(model, ranking).save(tmp_path / "e")
    save_tokenizer(tmp_path / "e")
    table = tmp_path / "t.csv"
    texts = sentences(10)
    table.write_text("\n".join(["text,label", *(f"{text},{names[i % 2]}" for i, text in enumerate(texts))]))
    command = ("eval", tmp_path / "e", "--data", table, "--tasks", "head")
    curve = curve_of(pliant(*command, *HALF))
    assert curve.full["head_agreement"].value == 1.0
    right = sum(
        names[said] == names[i % 2]
        for i, said in enumerate(said_by(library.load(tmp_path / "e").at(sparsity=0.0), texts))
    )
    assert curve.full["head_top1"].value == pytest.approx(right / 10)
    table.write_text("text,label\n" + "".join(f"{text},class {i % 3}\n" for i, text in enumerate(texts)))
    assert "neither numbers nor names" in refused(*command)
    table.write_text("text,label\n" + "".join(f"{text},{i % 3}\n" for i, text in enumerate(texts)))
    assert "Class 2 of a model with 2" in refused(*command, "--sparsity", "0.5")
    assert "no classification head" in refused("eval", elastic, "--data", table, "--tasks", "head")


def said_by(model: torch.nn.Module, texts: list[str]) -> list[int]:
    from cli.specimens import WORDS

    ids = [torch.tensor([[2, *(5 + WORDS.index(word) for word in text.split()), 3]]) for text in texts]
    with torch.no_grad():
        return [int(model(input_ids=row).logits.argmax()) for row in ids]


def test_the_cache(pliant: Run, refused: Refused, elastic: Path, texts: Path, cache: Path, tmp_path: Path) -> None:
    command = ("eval", elastic, "--data", texts, "--sparsity", "0.5", "--json")
    without = curve_of(pliant(*command, "--no-cache"))
    assert not cache.exists()
    first = curve_of(pliant(*command))
    (kept,) = (cache / "full").iterdir()
    assert not list((cache / "unfinished").iterdir())
    assert first == without == curve_of(pliant(*command))
    assert [*(cache / "full").iterdir()] == [kept]
    assert {file.suffix for file in cache.rglob("*") if file.is_file()} == {".safetensors", ""}
    assert curve_of(pliant(*command, "--cache", tmp_path / "mine")) == first
    assert (tmp_path / "mine" / "full" / kept.name).is_dir()
    assert "Can't write the cache" in refused(*command, "--cache", texts / "below")


STOPPER = """
import os, signal, sys
from pliant.evaluation import cache, reading
from pliant.cli import main

cache.SHARD_INPUTS = 8
ours = reading._read_batch
place, number = map(int, sys.argv[1:3])

def read_batch(inputs, batch, first, full, slim):
    if first == place:
        os.kill(os.getpid(), number)
    ours(inputs, batch, first, full, slim)

reading._read_batch = read_batch
sys.argv[1:] = sys.argv[3:]
main()
"""


@pytest.mark.parametrize(("number", "status", "kept"), [(signal.SIGKILL, -9, 16), (signal.SIGINT, 130, 20)])
def test_an_interrupted_measurement_goes_on(
    pliant: Run, elastic: Path, texts: Path, cache: Path, tmp_path: Path, number: signal.Signals, status: int, kept: int
) -> None:
    arguments = [
        "eval",
        elastic,
        "--data",
        texts,
        "--sparsity",
        "0.5",
        "--batch-size",
        4,
        "--save",
        tmp_path / "c.json",
    ]
    before = tree(tmp_path)
    command = [sys.executable, "-c", STOPPER, "20", str(int(number)), *map(str, arguments)]
    stopped = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert stopped.returncode == status, stopped.stderr
    assert "Traceback" not in stopped.stderr and stopped.stdout == ""
    assert status < 0 or "The same command goes on" in stopped.stderr
    assert tree(tmp_path) == before
    shards = sorted(next((cache / "full").iterdir()).iterdir())
    assert len(shards) == (kept + 7) // 8
    result = pliant(*arguments, "--json")
    assert curve_of(result) == curve_of(pliant(*arguments, "--json", "--no-cache"))
    assert sorted(next((cache / "full").iterdir()).iterdir())[: len(shards)] == shards


@pytest.mark.parametrize("option", ["--save", "--csv", "--report"])
def test_nothing_that_is_read_is_written_over(
    refused: Refused, elastic: Path, labelled: Path, pairs: Path, option: str
) -> None:
    for victim in (labelled, pairs, elastic / "pliant.json", elastic / "model.safetensors"):
        data = ("--data", f"sts={pairs}", "--data", labelled, "--train-data", labelled)
        message = refused("eval", elastic, *data, "--sparsity", "0.5", option, victim)
        assert f"{victim} is read by this command" in message
