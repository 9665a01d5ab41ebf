"""Retrieval collections in the layout of BEIR: corpus.jsonl, queries.jsonl and qrels/test.tsv."""

import math
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pliant.datasets.columns import open_rows, value_column
from pliant.errors import InputError
from pliant.evaluation.retrieval import RetrievalTask
from pliant.tables import check_unicode

CORPUS, QUERIES, JUDGEMENTS = "corpus.jsonl", "queries.jsonl", "qrels/test.tsv"

Judgements = Mapping[str, Mapping[str, float]]
"""For each query's name, the gains of its documents by their names."""


def is_collection(path: str | Path) -> bool:
    """Say whether a directory holds a retrieval collection."""
    return (Path(path).expanduser() / CORPUS).is_file()


def retrieval_directory(path: str | Path, limit: int | None = None, seed: int = 0) -> RetrievalTask:
    """Return the task of a directory with `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`, as BEIR has them.

    A document is its title, if there is one, and its text. Queries without a judged document are left out, and so are
    judgements of zero or below; the others are gains. All texts are in memory.

    Args:
        path: The directory.
        limit: At most so many queries, and so many documents: those of the queries, and others drawn at random. That
            makes the task easier, so its figures are not those of the whole collection.
        seed: Of the draw.

    Raises:
        InputError: A file is missing, can't be read, lacks a column, or judges what isn't there; or `limit` is too
            small for the documents of a single query.
    """
    folder = Path(path).expanduser()
    for name in (CORPUS, QUERIES, JUDGEMENTS):
        if not (folder / name).is_file():
            raise InputError(f"{folder} has no {name}. A retrieval collection has {CORPUS}, {QUERIES}, {JUDGEMENTS}.")
    judged = _judgements(folder / JUDGEMENTS)
    documents, queries = _texts(folder / CORPUS), _texts(folder / QUERIES)
    _check_known(judged, queries, documents, folder)
    names = [name for name in queries if name in judged]
    chosen = list(documents)
    if limit is not None:
        names, chosen = _drawn(names, chosen, judged, limit, seed)
    position = {name: index for index, name in enumerate(chosen)}
    relevant = ({position[name]: gain for name, gain in judged[query].items()} for query in names)
    return RetrievalTask(
        tuple(queries[name] for name in names), tuple(documents[name] for name in chosen), tuple(relevant)
    )


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    table = open_rows(path)
    return table.read(tuple(value_column(table, column) for column in columns))


def _texts(path: Path) -> dict[str, str]:
    table = open_rows(path)
    parts = ("title", "text") if "title" in table.columns else ("text",)
    found: dict[str, str] = {}
    for place, (name, *texts) in _rows(path, ("_id", *parts)):
        if any(text is not None and not isinstance(text, str) for text in texts):
            raise InputError(f"{path}, {place}: {texts!r:.60} is not text. Correct it.")
        if name is None:
            raise InputError(f"{path}, {place}: there is no _id. Give each row one.")
        if str(name) in found:
            raise InputError(f"{path}, {place}: the name {name!r} occurs twice. Names must differ.")
        found[str(name)] = " ".join(text.strip() for text in texts if text and text.strip())
        check_unicode(found[str(name)], f"{path}, {place}: the text")
    return found


def _judgements(path: Path) -> dict[str, dict[str, float]]:
    judged: dict[str, dict[str, float]] = {}
    for place, (query, document, gain) in _rows(path, ("query-id", "corpus-id", "score")):
        value = _score(gain, f"{path}, {place}")
        if judged.setdefault(query, {}).setdefault(document, value) != value:
            raise InputError(f"{path}, {place}: {query!r} and {document!r} have two different scores. Keep one.")
    relevant = {query: {name: gain for name, gain in gains.items() if gain > 0} for query, gains in judged.items()}
    if not any(relevant.values()):
        raise InputError(f"{path} judges no document to be relevant. Give at least one score above zero.")
    return {query: gains for query, gains in relevant.items() if gains}


def _score(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{where}: the score {text!r:.60} is no number. Correct it.")
    return value


def _check_known(judged: Judgements, queries: Mapping[str, str], documents: Mapping[str, str], folder: Path) -> None:
    for query, gains in judged.items():
        missing = sorted(set(gains) - set(documents))
        if query not in queries or missing:
            what = f"the query {query!r}" if query not in queries else f"the document {missing[0]!r}"
            raise InputError(f"{folder / JUDGEMENTS} judges {what}, which the collection doesn't have. Copy it again.")


def _drawn(
    names: list[str], documents: list[str], judged: Judgements, limit: int, seed: int
) -> tuple[list[str], list[str]]:
    """Return as many queries as `limit` has room for with their documents, and documents up to it."""
    generator = random.Random(seed)
    queries: list[str] = []
    wanted: set[str] = set()
    for name in generator.sample(names, min(limit, len(names))):
        if len(wanted | set(judged[name])) <= limit:
            queries.append(name)
            wanted |= set(judged[name])
    if not queries:
        raise InputError(f"{limit} documents are too few for those of a single query. Allow more.")
    others = [name for name in documents if name not in wanted]
    wanted |= set(generator.sample(others, min(limit - len(wanted), len(others))))
    return queries, [name for name in documents if name in wanted]
