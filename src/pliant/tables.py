"""Text files and tables read row by row: JSON lines, CSV, TSV and Parquet, never a whole file in memory."""

import csv
import json
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.errors import InputError, MissingExtraError

JSON_LINES = (".jsonl", ".ndjson", ".json-lines")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
PARQUET = ".parquet"
TABLES = (*JSON_LINES, *DELIMITERS, PARQUET)
"""The suffixes of files that are read as tables."""

# How much of a file is looked at for NUL bytes before its first line is read: a binary file may be one huge line.
_HEAD = 8192
# The csv module refuses longer fields than its limit, 128 KiB unless raised; this is the most that fits everywhere.
_LONGEST_FIELD = 2**31 - 1
# Rows of a Parquet file that are in memory at once.
_PARQUET_ROWS = 1024

Rows = Iterator[tuple[str, tuple[Any, ...]]]
"""For each row, where it is ("line 3"), and its values in the order of the columns asked for."""


@dataclass(frozen=True)
class Table:
    """An open question to a table file: its columns are known, its rows are read when asked for.

    Args:
        path: The file.
        columns: All column names.
        text_columns: Those that hold text, as far as the file's beginning or schema tells.
        read: Yields the rows' values of the given columns.
    """

    path: Path
    columns: tuple[str, ...]
    text_columns: tuple[str, ...]
    read: Callable[[tuple[str, ...]], Rows]

    def text_column(self, column: str | None) -> str:
        """Return `column` or, without one, `text` or the only text column.

        Raises:
            InputError: There is no such column, it holds no text, or more than one could be meant.
        """
        if column is None:
            return self._default_column()
        if column not in self.columns:
            raise InputError(f"{self.path} has no column {column!r}. Its columns: {_listed(self.columns)}. Name one.")
        if column not in self.text_columns:
            raise InputError(
                f"Column {column!r} of {self.path} does not hold text. Text columns: {_listed(self.text_columns)}."
            )
        return column

    def _default_column(self) -> str:
        if "text" in self.text_columns:
            return "text"
        if len(self.text_columns) == 1:
            return self.text_columns[0]
        raise InputError(
            f"{self.path} has {len(self.text_columns)} text columns and none is called 'text'. "
            f"Its columns: {_listed(self.columns)}. Say which one holds the texts."
        )

    def texts(self, columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """Yield the stripped texts of `columns`, row by row, leaving out rows where one of them is blank.

        Raises:
            InputError: A value is not text.
        """
        for place, values in self.read(columns):
            for column, value in zip(columns, values, strict=True):
                if value is not None and not isinstance(value, str):
                    raise InputError(
                        f"{self.path}, {place}: column {column!r} holds {value!r:.60}, which is not text. "
                        "Name a column of strings."
                    )
                check_unicode(value or "", f"{self.path}, {place}: column {column!r}")
            row = tuple((value or "").strip() for value in values)
            if all(row):
                yield row


def check_unicode(text: str, where: str) -> None:
    """Refuse half a character, which JSON can hold and no tokenizer takes.

    Raises:
        InputError: There is one.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{where} holds a lone surrogate. Correct the text.") from error


def open_table(path: Path) -> Table:
    """Return the table in `path`, a file with one of the suffixes `TABLES`.

    Raises:
        InputError: The file can't be read, or its beginning is not of its format.
        MissingExtraError: It is a Parquet file and pyarrow is not installed.
    """
    suffix = path.suffix.lower()
    if suffix == PARQUET:
        return _open_parquet(path)
    if suffix in DELIMITERS:
        return _open_csv(path, DELIMITERS[suffix])
    return _open_json_lines(path)


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file with their line ends, without a byte order mark.

    Raises:
        InputError: The file can't be read, is binary, or is not UTF-8.
    """
    offset = 0
    try:
        with path.open("rb") as file:
            if b"\0" in file.peek(_HEAD)[:_HEAD]:
                raise _binary(path)
            for raw in file:
                if b"\0" in raw:
                    raise _binary(path)
                text = _decoded(path, raw, offset)
                yield text if offset else text.removeprefix("\ufeff")
                offset += len(raw)
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}. Check the path and its permissions.") from error


def _decoded(path: Path, raw: bytes, offset: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8: byte 0x{raw[error.start]:02x} at offset {offset + error.start}. Save it as UTF-8."
        ) from error


def _binary(path: Path) -> InputError:
    return InputError(
        f"{path} is binary (it has NUL bytes), or UTF-16. "
        f"Allowed: UTF-8 text, or a table ({', '.join(TABLES)}). Convert it first."
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _empty(path: Path) -> InputError:
    return InputError(f"{path} is empty. Give a file with at least one row.")


def _refuse_twins(path: Path, columns: tuple[str, ...]) -> None:
    if len(set(columns)) < len(columns):
        raise InputError(f"{path} has two columns of one name: {_listed(columns)}. Rename one.")


def _open_json_lines(path: Path) -> Table:
    first = next(_objects(path), None)
    if first is None:
        raise _empty(path)
    _, row = first

    def read(columns: tuple[str, ...]) -> Rows:
        for place, row in _objects(path):
            for column in columns:
                if column not in row:
                    raise InputError(
                        f"{path}, {place}: there is no {column!r}, only {_listed(row)}. Every row must have it."
                    )
            yield place, tuple(row[column] for column in columns)

    # A null may be text in the next row, which `texts` checks.
    text_columns = tuple(name for name, value in row.items() if value is None or isinstance(value, str))
    return Table(path, tuple(row), text_columns, read)


def _objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        # The latter comes from objects that are nested thousands of times.
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}, line {number}: this is not JSON ({error}). Write one JSON object on each line."
            ) from error
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: {row!r:.60} is no JSON object. Write one on each line.")
        yield f"line {number}", row


def _open_csv(path: Path, delimiter: str) -> Table:
    # Process-wide, as the csv module knows no other way; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    rows = _records(path, delimiter)
    header = next(rows, None)
    rows.close()
    if header is None:
        raise _empty(path)
    columns = tuple(header[1])
    _refuse_twins(path, columns)

    def read(chosen: tuple[str, ...]) -> Rows:
        positions = [columns.index(column) for column in chosen]
        records = _records(path, delimiter)
        next(records)
        for place, fields in records:
            if len(fields) != len(columns):
                raise InputError(
                    f"{path}, {place}: {len(fields)} fields, but the first row names {len(columns)} columns. "
                    f"Put quotes around fields that contain {delimiter!r}."
                )
            yield place, tuple(fields[position] for position in positions)

    return Table(path, columns, columns, read)


def _records(path: Path, delimiter: str) -> Generator[tuple[str, list[str]], None, None]:
    reader = csv.reader(lines(path), delimiter=delimiter, strict=True)
    try:
        for fields in reader:
            if fields:
                yield f"line {reader.line_num}", fields
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: {error}. Write quotes inside a quoted field twice, or use JSON lines."
        ) from error


def _open_parquet(path: Path) -> Table:
    try:
        import pyarrow
        from pyarrow import parquet, types
    except ImportError as error:
        raise MissingExtraError("Reading Parquet files", "eval") from error

    def unreadable(error: Exception) -> InputError:
        reason = " ".join(str(error).split()).removesuffix(".")
        return InputError(f"{path} can't be read as Parquet: {reason}. Check its permissions, or write it again.")

    def is_text(kind: pyarrow.DataType) -> bool:
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)

    def read(columns: tuple[str, ...]) -> Rows:
        number = 0
        try:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(_PARQUET_ROWS, columns=list(columns)):
                    for values in zip(*(batch.column(name).to_pylist() for name in columns), strict=True):
                        number += 1
                        yield f"row {number}", values
        except (OSError, pyarrow.ArrowException) as error:
            raise unreadable(error) from error

    try:
        schema = parquet.read_schema(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise unreadable(error) from error
    _refuse_twins(path, tuple(schema.names))
    text_columns = tuple(field.name for field in schema if is_text(field.type))
    return Table(path, tuple(schema.names), text_columns, read)
