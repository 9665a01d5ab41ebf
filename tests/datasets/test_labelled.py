from pathlib import Path

import pytest

from pliant.datasets import labelled_images, labelled_texts
from pliant.errors import InputError


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_texts_and_their_classes(tmp_path: Path) -> None:
    table = written(tmp_path / "a.csv", "text,label,other\n a cat ,pets,x\na car,vehicles,y\n,pets,z\nno class,,\n")
    assert list(labelled_texts(table)) == [("a cat", "pets"), ("a car", "vehicles")]
    assert list(labelled_texts(table, "other", "label")) == [("x", "pets"), ("y", "vehicles"), ("z", "pets")]


def test_whole_numbers_are_classes_and_the_only_other_column_is_the_text(tmp_path: Path) -> None:
    rows = '{"utterance": "a", "intent": 3}\n{"utterance": "b", "intent": null}\n{"utterance": null, "intent": 3}\n'
    table = written(tmp_path / "a.jsonl", rows)
    assert list(labelled_texts(table, label_column="intent")) == [("a", "3")]
    words = written(tmp_path / "b.jsonl", '{"utterance": "a", "intent": "x"}\n')
    assert list(labelled_texts(words, label_column="intent")) == [("a", "x")]


@pytest.mark.parametrize(
    ("name", "text", "options", "message"),
    [
        ("a.csv", "text,label\na,b\n", {"label_column": "class"}, "no column 'class'. Its columns: 'text', 'label'"),
        ("a.csv", "text,label\na,b\n", {"column": "body"}, "no column 'body'"),
        ("a.jsonl", '{"text": "a", "label": 0.5}\n', {}, "line 1: 'label' holds 0.5"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": 4, "label": 1}\n', {}, "line 2: 'text' holds 4"),
        ("a.jsonl", '{"text": "\\ud800", "label": 1}\n', {}, "line 1: 'text' holds a lone surrogate"),
        ("a.txt", "text", {}, "is no table"),
        ("a.jsonl/b", "", {}, "does not exist, or is no file"),
    ],
)
def test_tables_that_cannot_be_used(
    tmp_path: Path, name: str, text: str, options: dict[str, str], message: str
) -> None:
    written(tmp_path / name, text)
    with pytest.raises(InputError, match=message):
        list(labelled_texts(tmp_path / name.partition("/")[0], **options))


def test_sub_folders_are_the_classes_of_images(tmp_path: Path) -> None:
    for name in ("dogs/b.png", "cats/more/a.jpg", "cats/c.png", "cats/notes.txt"):
        written(tmp_path / name, "")
    found = [(path.relative_to(tmp_path).as_posix(), label) for path, label in labelled_images(tmp_path)]
    assert found == [("cats/c.png", "cats"), ("cats/more/a.jpg", "cats"), ("dogs/b.png", "dogs")]
    written(tmp_path / "loose.png", "")
    with pytest.raises(InputError, match=r"loose.png is in no sub-folder"):
        list(labelled_images(tmp_path))
    with pytest.raises(InputError, match="does not exist"):
        list(labelled_images(tmp_path / "nowhere"))
