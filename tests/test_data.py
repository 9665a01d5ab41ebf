"""Reading texts, pairs and images, and sampling."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.data import images, pairs, sample, texts
from pliant.errors import InputError, MissingExtraError
from pliant.tables import Table, open_table

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402 - after the check that it is there

ROWS = [("one fish", "a"), ("two fish", "b"), ('red, "blue"\nfish', "c")]


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def complaint(read: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as raised:
        list(read())
    return str(raised.value)


def write_table(directory: Path, suffix: str, names: tuple[str, str] = ("text", "label")) -> Path:
    path = directory / f"table{suffix}"
    if suffix == ".parquet":
        columns = {name: [row[i] for row in ROWS] for i, name in enumerate(names)}
        parquet.write_table(pyarrow.table(columns), path, row_group_size=2)
    elif suffix in (".csv", ".tsv"):
        between = "," if suffix == ".csv" else "\t"
        quoted = [between.join('"' + value.replace('"', '""') + '"' for value in row) for row in (names, *ROWS)]
        write(path, "\r\n".join(quoted))
    else:
        import json

        write(path, "\n\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in ROWS))
    return path


SUFFIXES = (".jsonl", ".ndjson", ".json-lines", ".csv", ".tsv", ".parquet")


def test_a_text_file_gives_its_non_blank_lines_stripped(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "\ufefffirst line\r\n\n   \t\n  second – line \nlast")
    assert list(texts(path)) == ["first line", "second – line", "last"]
    assert list(texts(str(path))) == list(texts(path))


def test_any_other_suffix_is_read_as_plain_text(tmp_path: Path) -> None:
    assert list(texts(write(tmp_path / "notes.log", "one\ntwo"))) == ["one", "two"]
    assert list(texts(write(tmp_path / "notes", "one\ntwo"))) == ["one", "two"]


def test_a_very_long_line_is_one_text(tmp_path: Path) -> None:
    line = "word " * 200_000 + "end"
    assert list(texts(write(tmp_path / "a.txt", line))) == [line]
    assert list(texts(write(tmp_path / "a.csv", f"text\n{line}\n"))) == [line]


def test_texts_are_streamed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"good\n" * 10_000 + b"\xff\n")
    stream = texts(path)
    assert [next(stream) for _ in range(3)] == ["good"] * 3


def test_a_directory_gives_its_text_files_sorted_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path / "b.txt", "from b")
    write(tmp_path / "a.MD", "from a")
    write(tmp_path / "aa" / "z.rst", "from aa")
    write(tmp_path / "empty.txt", "")
    write(tmp_path / ".hidden" / "no.txt", "hidden")
    write(tmp_path / "table.csv", "text\nno")
    write(tmp_path / "image.png", b"\0\0")
    assert list(texts(tmp_path)) == ["from a", "from aa", "from b"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_gives_its_text_column(tmp_path: Path, suffix: str) -> None:
    path = write_table(tmp_path, suffix)
    assert list(texts(path)) == [row[0] for row in ROWS]
    assert list(texts(path, "label")) == ["a", "b", "c"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_gives_pairs(tmp_path: Path, suffix: str) -> None:
    path = write_table(tmp_path, suffix, ("ask", "answer"))
    assert list(pairs(path, "answer", "ask")) == [(label, text) for text, label in ROWS]
    assert list(pairs(path, "ask", "ask")) == [(text, text) for text, _ in ROWS]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_without_a_text_column_the_user_is_told_the_columns(tmp_path: Path, suffix: str) -> None:
    path = write_table(tmp_path, suffix, ("ask", "answer"))
    for message in (complaint(lambda: texts(path)), complaint(lambda: texts(path, "body"))):
        assert str(path) in message
        assert "'ask', 'answer'" in message
    assert "'body'" in complaint(lambda: pairs(path, "ask", "body"))


def test_the_only_text_column_is_the_default(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    words = pyarrow.array(["x", None, " ", "y"]).dictionary_encode()
    parquet.write_table(pyarrow.table({"id": [1, 2, 3, 4], "words": words}), path)
    assert list(texts(path)) == ["x", "y"]
    assert list(texts(write(tmp_path / "a.jsonl", '{"n": 1, "words": "x"}\n{"n": 2, "words": null}'))) == ["x"]
    assert list(texts(write(tmp_path / "a.csv", "words\nx\n\ny\n"))) == ["x", "y"]


def test_parquet_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pliant.tables._PARQUET_ROWS", 2)
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": [str(i) for i in range(7)]}), path)
    assert list(texts(path)) == [str(i) for i in range(7)]


def test_a_column_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": ["x"], "id": [1]}), path)
    message = complaint(lambda: texts(path, "id"))
    assert "'id'" in message
    assert "'text'" in message
    late = write(tmp_path / "a.jsonl", '{"text": "x"}\n{"text": 7}')
    message = complaint(lambda: texts(late))
    assert "line 2" in message
    assert "7" in message


@pytest.mark.parametrize(
    ("name", "content", "needles"),
    [
        ("a.txt", b"", ["no text"]),
        ("a.txt", b" \n\t\n", ["no text"]),
        ("a.txt", b"\xef\xbb\xbf", ["no text"]),
        ("a.txt", b"fine\n\x00\x01", ["binary"]),
        ("a.txt", b"fine\n" * 4000 + b"\x00", ["binary"]),
        ("a.txt", "fine\n".encode("utf-16"), ["binary", "UTF-16"]),
        ("a.txt", b"fine\ncaf\xe9 au lait\n", ["UTF-8", "0xe9", "offset 8"]),
        ("a.jsonl", b"", ["empty"]),
        ("a.jsonl", b'{"text": "x"}\n\n{"text": \n', ["line 3", "JSON"]),
        ("a.jsonl", b'["x"]\n', ["line 1", "object"]),
        ("a.jsonl", b'{"text": "x"}\n{"other": "x"}\n', ["line 2", "'text'", "'other'"]),
        ("a.jsonl", b'{"text": " "}\n{"text": null}', ["no text"]),
        ("a.csv", b"", ["empty"]),
        ("a.csv", b"text\n", ["no text"]),
        ("a.csv", b"text,label\nfish, chips,1\n", ["line 2", "3 fields", "2 columns"]),
        ("a.csv", b'text\n"never closed\n', ["line 2", "quote"]),
        ("a.csv", b"text,text\na,b\n", ["two columns"]),
        ("a.csv", b"text\ncaf\xe9\n", ["UTF-8", "offset 8"]),
        ("a.parquet", b"PAR1 is not enough", ["Parquet"]),
        ("a.json", b'[{"text": "x"}]', ["a.jsonl"]),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path: Path, name: str, content: bytes, needles: list[str]) -> None:
    path = write(tmp_path / name, content)
    message = complaint(lambda: texts(path))
    assert all(needle in message for needle in (str(path), *needles)), message
    assert "\n" not in message


def test_a_directory_without_text_is_refused(tmp_path: Path) -> None:
    assert ".txt" in complaint(lambda: texts(tmp_path))
    write(tmp_path / "table.csv", "text\nx")
    assert "table" in complaint(lambda: texts(tmp_path))
    write(tmp_path / "blank.txt", "\n")
    assert "holds no text" in complaint(lambda: texts(tmp_path))


@pytest.mark.parametrize("read", [texts, images, lambda path: pairs(path, "a", "b")])
def test_a_path_that_does_not_exist_is_refused_at_once(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    with pytest.raises(InputError, match=r"gone\.txt does not exist"):
        read(tmp_path / "gone.txt")


def test_a_file_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.txt", "secret")

    def denied(self: Path, mode: str = "r") -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", denied)
    assert "Permission denied" in complaint(lambda: texts(path))


def test_a_directory_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", denied)
    assert "Permission denied" in complaint(lambda: texts(tmp_path))
    assert "Permission denied" in complaint(lambda: images(tmp_path))


def test_missing_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_table(tmp_path, ".parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pliant\[eval\]"):
        texts(path)


def test_pairs_refuse_what_is_no_table(tmp_path: Path) -> None:
    assert ".csv" in complaint(lambda: pairs(write(tmp_path / "a.txt", "x"), "a", "b"))
    assert ".csv" in complaint(lambda: pairs(tmp_path, "a", "b"))


def test_pairs_leave_out_rows_with_a_blank_and_refuse_to_have_none(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "ask,answer\nq1,\n ,d2\nq3,d3\n")
    assert list(pairs(path, "ask", "answer")) == [("q3", "d3")]
    path = write(tmp_path / "b.csv", "ask,answer\nq1,\n")
    assert "no row" in complaint(lambda: pairs(path, "ask", "answer"))


def test_texts_of_the_demonstration() -> None:
    assert next(texts("demo:text"))
    with pytest.raises(InputError, match="demo:text"):
        texts("demo:texts")


def test_images_are_found_sorted(tmp_path: Path) -> None:
    for name in ("b/2.PNG", "b/1.jpeg", "a.webp", "c.gif", "c.tiff"):
        write(tmp_path / name, b"")
    write(tmp_path / "readme.txt", "no image")
    found = [Path(str(path)).relative_to(tmp_path).as_posix() for path in images(tmp_path)]
    assert found == ["a.webp", "b/1.jpeg", "b/2.PNG", "c.gif", "c.tiff"]


def test_a_folder_without_images_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "x")
    assert ".png" in complaint(lambda: images(tmp_path))
    assert "is a file" in complaint(lambda: images(path))
    for name in (tmp_path / "nowhere", "demo:text", " "):
        assert "Give a folder of images, or demo:vision." in complaint(lambda name=name: images(name))


@given(st.integers(0, 60), st.integers(1, 30), st.integers(0, 2**32))
def test_a_sample_is_drawn_without_repetition_and_repeats_for_its_seed(total: int, count: int, seed: int) -> None:
    drawn = sample(iter(range(total)), count, seed)
    assert len(drawn) == min(count, total)
    assert len(set(drawn)) == len(drawn)
    assert set(drawn) <= set(range(total))
    assert sample(range(total), count, seed) == drawn


def test_every_item_is_sampled_equally_often_at_every_place() -> None:
    places = [[0] * 4 for _ in range(12)]
    for seed in range(6000):
        for place, item in enumerate(sample(range(12), 4, seed)):
            places[item][place] += 1
    # 500 expected, standard deviation 21.4.
    assert all(400 < count < 600 for item in places for count in item)


def test_sampling_leaves_the_global_generator_alone() -> None:
    random.seed(1)
    before = random.getstate()
    sample(range(100), 5, 0)
    assert random.getstate() == before


def test_a_sample_of_none_is_refused() -> None:
    with pytest.raises(InputError, match="count is 0"):
        sample([1], 0, 0)


def test_tables_know_their_columns(tmp_path: Path) -> None:
    table = open_table(write_table(tmp_path, ".csv"))
    assert isinstance(table, Table)
    assert (table.columns, table.text_columns) == (("text", "label"), ("text", "label"))


@pytest.mark.parametrize("path", ["", " "])
def test_a_blank_path_is_not_the_present_directory(path: str) -> None:
    with pytest.raises(InputError, match="blank"):
        texts(path)


@pytest.mark.parametrize(
    ("content", "named"),
    [('{"text": "\\ud800 x"}\n', "lone surrogate"), ('{"text": ' + "[" * 100_000 + "\n", "not JSON")],
    ids=["surrogate", "deep"],
)
def test_json_that_python_alone_takes(tmp_path: Path, content: str, named: str) -> None:
    with pytest.raises(InputError, match=f"line 1.*{named}"):
        list(texts(write(tmp_path / "a.jsonl", content)))


def test_parquet_columns_of_one_name(tmp_path: Path) -> None:
    column = pyarrow.array(["x"])
    parquet.write_table(pyarrow.table([column, column], names=["text", "text"]), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="two columns of one name"):
        list(texts(tmp_path / "a.parquet"))
