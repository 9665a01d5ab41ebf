"""`pliant eval --mteb` on tasks that are made here."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pliant.evaluation import Curve

pytest.importorskip("mteb")

Run = Callable[..., Any]
Refused = Callable[..., str]

SEARCH, PAIRS = (f"evaluation.tasks.mteb_tasks:{name}" for name in ("Search", "Pairs"))
SIZES = ("--sparsity", "0,0.4,0.6", "--json")


def curve_of(result: Any) -> Curve:
    assert result.status == 0, result.err
    (curve,) = json.loads(result.out)["curves"]
    return Curve.from_json(curve)


def value_at(curve: Curve, sparsity: float, metric: str) -> float | None:
    point = curve.at(sparsity)
    assert point is not None
    return point.value(metric)


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """The same as `Search`, in BEIR's layout."""
    from evaluation.tasks.mteb_tasks import DOCUMENTS, QUERIES

    folder = tmp_path / "collection"
    (folder / "qrels").mkdir(parents=True)
    for name, texts, letter in (("corpus", DOCUMENTS, "d"), ("queries", QUERIES, "q")):
        rows = [{"_id": f"{letter}{i}", "text": text} for i, text in enumerate(texts)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judged = [f"q{i}\td{i}\t1" for i in range(len(QUERIES))]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return folder


def test_main_scores_are_metrics_of_the_curve(pliant: Run, elastic: Path, tmp_path: Path) -> None:
    outputs = ("--csv", tmp_path / "c.csv", "--report", tmp_path / "r.html")
    shown = pliant("eval", elastic, "--mteb", f"{SEARCH}, {PAIRS},{SEARCH}", "--sparsity", "0,0.6", *outputs)
    assert shown.status == 0 and shown.err == "", shown.err
    assert "MTEB, main scores" in shown.out and "OurSearch" in shown.out and "OurPairs" in shown.out
    assert "on MTEB's OurSearch, MTEB's OurPairs" in shown.out
    curve = curve_of(pliant("eval", elastic, "--mteb", f"{SEARCH},{PAIRS}", *SIZES))
    assert curve.metrics == ("mteb.OurSearch", "mteb.OurPairs")
    assert curve.points[0].metrics == curve.full
    rows = (tmp_path / "c.csv").read_text().splitlines()
    assert len([row for row in rows if ",mteb.OurPairs," in row]) == 2
    assert "OurSearch" in (tmp_path / "r.html").read_text("utf-8")


def test_the_sizes_of_queries_and_of_documents(pliant: Run, elastic: Path, collection: Path) -> None:
    ours = curve_of(pliant("eval", elastic, "--data", collection, "--tasks", "retrieval", *SIZES))
    for options, mode in (((), "slim_queries"), (("--documents-at", "same"), "both_slim")):
        found = curve_of(pliant("eval", elastic, "--mteb", SEARCH, *options, *SIZES))
        for sparsity in (0.0, 0.4, 0.6):
            value = value_at(found, sparsity, "mteb.OurSearch")
            assert value == pytest.approx(value_at(ours, sparsity, f"ndcg_{mode}"), abs=1e-5)
    both = curve_of(pliant("eval", elastic, "--mteb", SEARCH, "--documents-at", "0.6", *SIZES))
    wanted = value_at(ours, 0.6, "ndcg_both_slim")
    assert value_at(both, 0.6, "mteb.OurSearch") == pytest.approx(wanted, abs=1e-5)


def test_beside_other_tasks(pliant: Run, elastic: Path, texts: Path) -> None:
    curve = curve_of(pliant("eval", elastic, "--data", texts, "--mteb", PAIRS, *SIZES))
    assert curve.metrics == ("cosine", "worst_cosine", "cka", "mteb.OurPairs")
    assert curve.task == f"{texts}, MTEB's OurPairs"


def test_what_is_refused(refused: Refused, elastic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("eval", elastic, "--mteb")
    assert "no task 'NFCorpsu'. Names like it: NFCorpus" in refused(*command, "NFCorpsu")
    assert "data of MTEB's NFCorpus can't be fetched: Couldn't reach" in refused(*command, "NFCorpus")
    for value in ("full", "1", "-0.1", "nan"):
        assert "a sparsity from 0, that is below 1, or same" in refused(*command, SEARCH, f"--documents-at={value}")
    assert "is for --mteb" in refused("eval", elastic, "--documents-at", "0.5")
    monkeypatch.setitem(sys.modules, "mteb", None)
    assert "pip install 'pliant[mteb]'" in refused(*command, "NFCorpus")
