from pathlib import Path

import pytest

from pliant.datasets import scored_pairs
from pliant.errors import InputError


def test_pairs_and_their_scores(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("sentence1\tsentence2\tscore\n a \tb\t4.5\n\tb\t1\na\tb\t\nc\td\t0\n")
    assert list(scored_pairs(tmp_path / "a.tsv")) == [("a", "b", 4.5), ("c", "d", 0.0)]
    (tmp_path / "b.jsonl").write_text('{"one": "a", "two": "b", "gold": 3}\n{"one": null, "two": "b", "gold": 3}\n')
    assert list(scored_pairs(tmp_path / "b.jsonl", ("one", "two"), "gold")) == [("a", "b", 3.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"sentence1": "a", "sentence2": "b", "score": "high"}', "line 1: 'score' holds 'high', which is no number"),
        ('{"sentence1": "a", "sentence2": "b", "score": [1]}', "which is no number"),
        ('{"sentence1": "a", "sentence2": "b", "score": NaN}', "which is no number"),
        ('{"sentence1": "a", "sentence2": "b", "score": 1' + 400 * "0" + "}", "which is no number"),
        ('{"sentence1": "a", "sentence2": "\\udc00", "score": 1}', "line 1: 'sentence2' holds a lone surrogate"),
        ('{"sentence1": "a", "sentence2": 7, "score": 1}', "'sentence2' of .* does not hold text"),
        ('{"sentence1": "a", "sentence2": null, "score": 1}\n{"sentence1": "a", "sentence2": 7, "score": 1}', "line 2"),
        ('{"sentence1": "a", "text": "b", "score": 1}', "no column 'sentence2'"),
        ('{"sentence1": "a", "sentence2": "b", "label": 1}', "no column 'score'"),
    ],
)
def test_tables_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.jsonl").write_text(text + "\n")
    with pytest.raises(InputError, match=message):
        list(scored_pairs(tmp_path / "a.jsonl"))
