"""What the commands share: where they print, and how they show that work goes on."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pliant.errors import InputError

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no table.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]

Report = Callable[[str, float], None]
"""Called with what is being done and the fraction of it that is done."""


@contextmanager
def progress(quiet: bool) -> Iterator[Report]:
    """Show a progress bar on standard error while the block runs; nothing when quiet or not on a terminal."""
    _silence_libraries()
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<28}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bars:
        bar = bars.add_task("loading", total=1.0)
        yield lambda label, fraction: bars.update(bar, description=label, completed=fraction)


def _silence_libraries() -> None:
    """Keep the progress bars and notices of transformers out of our output."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def emit(result: Mapping[str, Any]) -> None:
    """Print a result as JSON on standard output."""
    with _printing():
        typer.echo(json.dumps(result, indent=1))


def show(what: Any, quiet: bool) -> None:
    """Print a table or a text on standard output, unless quiet."""
    if quiet:
        return
    # A text is printed as it is: a path may be long, and may hold brackets, which mean colours to rich.
    with _printing():
        if isinstance(what, str):
            typer.echo(what)
        else:
            Console().print(what, crop=False)


def show_notes(notes: Iterable[str], quiet: bool) -> None:
    """Print what a user should know of a model, a line each, unless quiet."""
    for note in notes:
        show(f"Note: {note}", quiet)


@contextmanager
def _printing() -> Iterator[None]:
    """Turn a full disk behind standard output into one clear error; typer knows what to do when nobody reads on."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is still in the buffer would fail once more when the process ends.
        sys.stdout = None
        raise InputError(f"Can't print the result: {error.strerror}. Send it to a place that has room.") from error


def check_positive(value: int, option: str) -> None:
    """Refuse counts and lengths below one.

    Raises:
        InputError: `value` is below 1.
    """
    if value < 1:
        raise InputError(f"{option} {value} is too small: at least 1.")


def numbers(text: str, option: str) -> tuple[float, ...]:
    """Return the numbers of a comma-separated list.

    Raises:
        InputError: One of them is no number, or there are none.
    """
    try:
        found = tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        found = ()
    if not found:
        raise InputError(f"{option} {text!r} is no list of numbers. Give them with commas, such as 0.3,0.5.")
    return found
