"""Texts and images with the class of each."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pliant.data import images
from pliant.datasets.columns import open_rows, value_column
from pliant.errors import InputError
from pliant.tables import check_unicode


def labelled_texts(
    path: str | Path, column: str | None = None, label_column: str = "label"
) -> Iterator[tuple[str, str]]:
    """Yield texts of a table (JSON lines, CSV, TSV, Parquet) with their classes, without rows that lack either.

    Args:
        path: The table.
        column: The column of the texts; by default `text`, else the only other one with text.
        label_column: The column of the classes: text or whole numbers.

    Raises:
        InputError: The path is no table or can't be read, a column is missing, or a value is of the wrong kind.
        MissingExtraError: It is a Parquet file and pyarrow is not installed.
    """
    table = open_rows(path)
    value_column(table, label_column)
    others = tuple(name for name in table.text_columns if name != label_column)
    chosen = others[0] if column is None and len(others) == 1 else table.text_column(column)
    for place, (text, label) in table.read((chosen, label_column)):
        if text is not None and not isinstance(text, str):
            raise InputError(
                f"{path}, {place}: {chosen!r} holds {text!r:.60}, which is not text. Name another --column."
            )
        check_unicode(text or "", f"{path}, {place}: {chosen!r}")
        name = _label(label, f"{path}, {place}: {label_column!r}")
        if text and text.strip() and name:
            yield text.strip(), name


def labelled_images(path: str | Path) -> Iterator[tuple[Path, str]]:
    """Yield the images of a folder with the names of the sub-folders that they are in, sorted.

    Args:
        path: The folder; each of its sub-folders holds the images of one class.

    Raises:
        InputError: There is no such folder, it can't be read, has no image, or one that is in no sub-folder.
    """
    folder = Path(path).expanduser()
    for image in images(folder):
        assert isinstance(image, Path)
        parts = image.relative_to(folder).parts
        if len(parts) < 2:
            raise InputError(f"{image} is in no sub-folder of {folder}, so it has no class. Sort images by class.")
        yield image, parts[0]


def _label(value: Any, where: str) -> str:
    if value is None:
        return ""
    if isinstance(value, (str, int)):
        return str(value).strip()
    raise InputError(f"{where} holds {value!r:.60}. Allowed: text or whole numbers.")
