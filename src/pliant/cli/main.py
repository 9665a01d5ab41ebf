"""The `pliant` command: its sub-commands, and what happens when one fails or is interrupted."""

import signal
import sys
from types import FrameType
from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

from pliant.cli.cut import cut
from pliant.cli.describe import describe
from pliant.cli.eval import evaluate
from pliant.cli.rank import rank
from pliant.errors import PliantError

_USAGE_ERROR = 2
_INTERRUPTED, _TERMINATED = 130, 143

app = typer.Typer(
    help="Make a pretrained transformer encoder elastic: rank its units once, then run it at any size.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(describe)
app.command()(rank)
app.command("eval")(evaluate)
app.command()(cut)


class _Terminated(KeyboardInterrupt):
    """SIGTERM, as an exception that runs every `finally` on its way out."""


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise _Terminated


def main() -> None:
    """Run the command line; a user's mistake ends with one message on standard error and exit status 2."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except PliantError as error:
        _fail(str(error), _USAGE_ERROR)
    except _Terminated:
        _fail("Terminated. If this was a ranking, the same command with --resume goes on with it.", _TERMINATED)
    except KeyboardInterrupt:
        _fail("Interrupted. If this was a ranking, the same command with --resume goes on with it.", _INTERRUPTED)


def _fail(message: str, status: int) -> NoReturn:
    Console(stderr=True, soft_wrap=True).print(Text.assemble(("error: ", "bold red"), message))
    sys.exit(status)
