"""Pairs of texts with the scores that people gave them."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pliant.datasets.columns import open_rows, value_column
from pliant.errors import InputError
from pliant.tables import check_unicode


class ScoredPair(NamedTuple):
    """Two texts, and how alike people find them; higher is more alike."""

    first: str
    second: str
    score: float


def scored_pairs(
    path: str | Path, columns: tuple[str, str] = ("sentence1", "sentence2"), score_column: str = "score"
) -> Iterator[ScoredPair]:
    """Yield the pairs of a table (JSON lines, CSV, TSV, Parquet), without rows where something is blank.

    Args:
        path: The table.
        columns: The columns of the two texts.
        score_column: The column of the scores: numbers, on any scale.

    Raises:
        InputError: The path is no table or can't be read, a column is missing, or a value is of the wrong kind.
        MissingExtraError: It is a Parquet file and pyarrow is not installed.
    """
    table = open_rows(path)
    chosen = (table.text_column(columns[0]), table.text_column(columns[1]), value_column(table, score_column))
    for place, (first, second, score) in table.read(chosen):
        for column, text in zip(columns, (first, second), strict=True):
            if text is not None and not isinstance(text, str):
                raise InputError(f"{path}, {place}: {column!r} holds {text!r:.60}, which is not text. Name another.")
            check_unicode(text or "", f"{path}, {place}: {column!r}")
        if first and second and first.strip() and second.strip() and score not in (None, ""):
            yield ScoredPair(first.strip(), second.strip(), _number(score, f"{path}, {place}: {score_column!r}"))


def _number(value: Any, where: str) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise InputError(f"{where} holds {value!r:.60}, which is no number. Correct it, or name another column.")
    return found
