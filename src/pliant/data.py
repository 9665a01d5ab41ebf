"""Inputs from text files, tables and image folders, and batches of them for a model."""

import os
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pliant.errors import InputError
from pliant.loaders import ImageBatches, TextBatches, check_enough
from pliant.tables import TABLES, lines, open_table

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = [
    "DEMO_IMAGES",
    "DEMO_TEXTS",
    "IMAGE_SUFFIXES",
    "TEXT_SUFFIXES",
    "ImageBatches",
    "TextBatches",
    "check_enough",
    "images",
    "pairs",
    "sample",
    "texts",
]

TEXT_SUFFIXES = (".txt", ".md", ".rst", ".text")
"""The suffixes of the files that a directory of texts is searched for."""

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
"""The suffixes of the files that a folder of images is searched for."""

DEMO_TEXTS = "demo:text"
"""The path that stands for `pliant.demo.calibration_texts`."""

DEMO_IMAGES = "demo:vision"
"""The path that stands for `pliant.demo.calibration_images`."""

T = TypeVar("T")


def texts(path: str | Path, column: str | None = None) -> Iterator[str]:
    """Yield texts, stripped and without blank ones, from a file, a directory of text files, or `demo:text`.

    A text file gives one text per line. A directory gives those of its files with `TEXT_SUFFIXES`, sub-directories
    included, sorted by path. A table (JSON lines, CSV, TSV, Parquet) gives one per row.

    Args:
        path: The file, the directory, or `demo:text`.
        column: The column of a table; by default `text`, else the only one with text. Ignored for text files.

    Raises:
        InputError: The path can't be read, or there is no text in it; which file, where, and what to do.
        MissingExtraError: It is a Parquet file and pyarrow is not installed.
    """
    if str(path) == DEMO_TEXTS:
        # Imported here, as the demonstration also builds evaluation tasks, which reading a file has no need of.
        from pliant.demo import calibration_texts

        return iter(calibration_texts())
    found = _existing(path)
    if found.is_dir():
        return _checked(_directory_texts(found), f"{found} holds no text. Put text into its files.")
    return _checked(_file_texts(found, column), f"{found} holds no text: it is empty or blank. Give it some text.")


def pairs(path: str | Path, query_column: str, document_column: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of a query and its document from a table (JSON lines, CSV, TSV, Parquet), without blank ones.

    Args:
        path: The table.
        query_column: The column of the queries.
        document_column: The column of the documents that answer them.

    Raises:
        InputError: The path is no table or can't be read, a column is missing or not text, or no pair is in it.
        MissingExtraError: It is a Parquet file and pyarrow is not installed.
    """
    found = _existing(path)
    if found.is_dir() or found.suffix.lower() not in TABLES:
        raise InputError(f"{found} is no table. Allowed: a file that ends in {', '.join(TABLES)}.")
    table = open_table(found)
    columns = (table.text_column(query_column), table.text_column(document_column))
    rows = ((query, document) for query, document in table.texts(columns))
    return _checked(rows, f"{found} has no row with both {query_column!r} and {document_column!r}. Fill them in.")


def images(path: str | Path) -> "Iterator[Path | Image]":
    """Yield the image files of a folder, sub-folders included, sorted by path, or the images of `demo:vision`.

    Args:
        path: The folder, or `demo:vision`.

    Raises:
        InputError: There is no such folder, it can't be read, or it has no image.
        MissingExtraError: It is `demo:vision`, and Pillow is not installed.
    """
    if str(path) == DEMO_IMAGES:
        from pliant.demo import calibration_images

        return iter(calibration_images().images)
    found = _existing(path, f"a folder of images, or {DEMO_IMAGES}")
    if not found.is_dir():
        raise InputError(f"{found} is a file. Give the folder that the images are in.")
    return _checked(_walk(found, IMAGE_SUFFIXES), _none_of(found, IMAGE_SUFFIXES, "images"))


def sample(items: Iterable[T], count: int, seed: int) -> list[T]:
    """Return `count` random items in random order, or all when there are fewer; only `count` are in memory.

    Args:
        items: Any stream.
        count: The number of items, at least 1.
        seed: One seed gives one sample of one stream.

    Raises:
        InputError: `count` is below 1.

    Example:
        >>> sorted(sample(range(3), count=5, seed=0))
        [0, 1, 2]

    References:
        Algorithm R, in: J. S. Vitter, "Random sampling with a reservoir", ACM TOMS 11 (1985).
    """
    if count < 1:
        raise InputError(f"count is {count}; it must be 1 or more.")
    generator = random.Random(seed)
    kept: list[T] = []
    for position, item in enumerate(items):
        if position < count:
            kept.append(item)
        elif (place := generator.randrange(position + 1)) < count:
            kept[place] = item
    generator.shuffle(kept)
    return kept


def _existing(path: str | Path, allowed: str = f"a file, a directory, or {DEMO_TEXTS}") -> Path:
    if not str(path).strip():
        raise InputError(f"The path of the data is {str(path)!r}, which is blank. Give {allowed}.")
    found = Path(path).expanduser()
    try:
        found.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{found} does not exist. Give {allowed}.") from error
    except OSError as error:
        raise InputError(f"{found} can't be read: {error.strerror}. Check its permissions.") from error
    return found


def _checked(items: Iterator[T], complaint: str) -> Iterator[T]:
    """Yield `items`, and raise `InputError` with `complaint` when there were none."""
    empty = True
    for item in items:
        empty = False
        yield item
    if empty:
        raise InputError(complaint)


def _file_texts(path: Path, column: str | None) -> Iterator[str]:
    suffix = path.suffix.lower()
    if suffix in TABLES:
        table = open_table(path)
        return (text for (text,) in table.texts((table.text_column(column),)))
    if suffix == ".json":
        raise InputError(
            f"{path} is JSON. Write one object on each line and call it {path.with_suffix('.jsonl').name}."
        )
    return (text for line in lines(path) if (text := line.strip()))


def _directory_texts(path: Path) -> Iterator[str]:
    files = _checked(_walk(path, TEXT_SUFFIXES), _none_of(path, TEXT_SUFFIXES, "text files"))
    return (text for file in files for line in lines(file) if (text := line.strip()))


def _walk(directory: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files with one of `suffixes`, in an order that no file system decides, leaving out hidden ones."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"{directory} can't be read: {error.strerror}. Check its permissions.") from error
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), suffixes)
        # Only what has the right name is looked at closer: whatever else lies there may be forbidden.
        elif Path(entry.name).suffix.lower() in suffixes and Path(entry.path).is_file():
            yield Path(entry.path)


def _none_of(directory: Path, suffixes: tuple[str, ...], what: str) -> str:
    return (
        f"{directory} has no {what}: no file in it, or in its sub-directories, ends in {', '.join(suffixes)}. "
        "Rename the files, or name another directory; a table is given as a file of its own."
    )
