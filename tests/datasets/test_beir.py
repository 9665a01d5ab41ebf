import json
from pathlib import Path

import pytest

from pliant.datasets import retrieval_directory
from pliant.datasets.beir import is_collection
from pliant.errors import InputError

HEAD = "query-id\tcorpus-id\tscore\n"


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    documents = [{"_id": f"d{i}", "title": f"title {i}" if i % 2 else "", "text": f"text {i}"} for i in range(20)]
    queries = [{"_id": f"q{i}", "text": f"question {i}"} for i in range(5)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents))
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    (tmp_path / "qrels").mkdir()
    judged = "q0\td3\t1\nq0\td4\t2\nq1\td0\t1\nq1\td1\t0\nq3\td19\t1\nq4\td5\t0\n"
    (tmp_path / "qrels" / "test.tsv").write_text(HEAD + judged)
    return tmp_path


def test_the_whole_collection(collection: Path) -> None:
    assert is_collection(collection) and not is_collection(collection / "qrels")
    task = retrieval_directory(collection)
    assert task.queries == ("question 0", "question 1", "question 3")
    assert task.documents[:2] == ("text 0", "title 1 text 1") and len(task.documents) == 20
    assert task.relevant == ({3: 1.0, 4: 2.0}, {0: 1.0}, {19: 1.0})


def test_a_part_keeps_the_documents_of_its_queries(collection: Path) -> None:
    whole = retrieval_directory(collection)
    answers = {
        query: {whole.documents[i] for i in gains} for query, gains in zip(whole.queries, whole.relevant, strict=True)
    }
    for limit in (2, 4, 7):
        part = retrieval_directory(collection, limit=limit)
        assert part == retrieval_directory(collection, limit=limit)
        assert len(part.documents) == limit and len(part.queries) <= limit
        for query, gains in zip(part.queries, part.relevant, strict=True):
            assert {part.documents[i] for i in gains} == answers[query]
    assert retrieval_directory(collection, limit=100).documents == whole.documents


def test_documents_need_no_title(collection: Path) -> None:
    rows = [json.dumps({"_id": f"d{i}", "text": f"text {i}"}) + "\n" for i in range(20)]
    (collection / "corpus.jsonl").write_text("".join(rows))
    assert retrieval_directory(collection).documents[1] == "text 1"


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("qrels/test.tsv", HEAD + "q0\td99\t1\n", "judges the document 'd99', which the collection doesn't have"),
        ("qrels/test.tsv", HEAD + "q9\td1\t1\n", "judges the query 'q9'"),
        ("qrels/test.tsv", HEAD + "q0\td1\tyes\n", "line 2: the score 'yes' is no number"),
        ("qrels/test.tsv", HEAD + "q0\td1\tnan\nq1\td1\t1\n", "line 2: the score 'nan' is no number"),
        ("qrels/test.tsv", HEAD + "q0\td1\tinf\n", "line 2: the score 'inf' is no number"),
        ("qrels/test.tsv", HEAD + "q0\td1\t1\nq0\td1\t0\n", "line 3: 'q0' and 'd1' have two different scores"),
        ("qrels/test.tsv", HEAD + "q0\td1\t0\n", "judges no document"),
        ("qrels/test.tsv", "query\tdocument\nq0\td1\n", "no column 'query-id'"),
        ("corpus.jsonl", '{"_id": "d1", "text": "a"}\n{"_id": "d1", "text": "b"}\n', "line 2: the name 'd1' occurs"),
        ("corpus.jsonl", '{"_id": null, "text": "a"}\n', "line 1: there is no _id"),
        ("corpus.jsonl", '{"_id": "d1", "text": "\\ud800"}\n', "line 1: the text holds a lone surrogate"),
        ("corpus.jsonl", '{"_id": "d1", "text": 4}\n', "is not text"),
        ("queries.jsonl", '{"id": "q1", "text": "a"}\n', "no column '_id'"),
        ("queries.jsonl", "", "is empty"),
    ],
)
def test_damaged_collections(collection: Path, file: str, text: str, message: str) -> None:
    (collection / file).write_text(text)
    with pytest.raises(InputError, match=message):
        retrieval_directory(collection)


def test_missing_files_and_a_limit_without_room(collection: Path) -> None:
    (collection / "qrels" / "test.tsv").write_text(HEAD + "q0\td3\t1\nq0\td4\t2\n")
    with pytest.raises(InputError, match="1 documents are too few"):
        retrieval_directory(collection, limit=1)
    (collection / "queries.jsonl").unlink()
    with pytest.raises(InputError, match=r"has no queries.jsonl. A retrieval collection has"):
        retrieval_directory(collection)
