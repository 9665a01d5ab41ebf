"""Tables whose columns hold more than text."""

from pathlib import Path

from pliant.errors import InputError
from pliant.tables import TABLES, Table, open_table


def open_rows(path: str | Path) -> Table:
    """Return the table at `path`.

    Raises:
        InputError: There is none, or it can't be read.
        MissingExtraError: It is a Parquet file and pyarrow is not installed.
    """
    found = Path(path).expanduser()
    if found.suffix.lower() not in TABLES:
        raise InputError(f"{path} is no table. Allowed: a file that ends in {', '.join(TABLES)}.")
    if not found.is_file():
        raise InputError(f"{found} does not exist, or is no file. Give a table.")
    return open_table(found)


def value_column(table: Table, column: str) -> str:
    """Return `column`.

    Raises:
        InputError: The table has no such column.
    """
    if column not in table.columns:
        names = ", ".join(map(repr, table.columns))
        raise InputError(f"{table.path} has no column {column!r}. Its columns: {names}. Name one.")
    return column
