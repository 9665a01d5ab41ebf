"""The `pliant` command: its sub-commands, and what happens when one fails or is interrupted."""

import io
import signal
import sys
from types import FrameType
from typing import NoReturn, cast

import typer
from rich.console import Console
from rich.text import Text

from pliant.cli.bench import bench
from pliant.cli.cut import cut
from pliant.cli.describe import describe
from pliant.cli.eval import evaluate
from pliant.cli.rank import rank
from pliant.cli.report import report
from pliant.errors import PliantError

_USAGE_ERROR = 2
_STOPPED = {signal.SIGINT: "Interrupted", signal.SIGTERM: "Terminated"}

# By version, typer imports click or carries it inside itself; the base of its usage errors is found here either way.
_UsageError = cast(type[typer.BadParameter], typer.BadParameter.__mro__[1])

app = typer.Typer(
    help="Make a pretrained transformer encoder elastic: rank its units once, then run it at any size.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(describe)
app.command()(rank)
app.command("eval")(evaluate)
app.command()(report)
app.command()(cut)
app.command()(bench)


class _Stopped(BaseException):
    """A signal, as an exception that runs every `finally` on its way out.

    No KeyboardInterrupt: typer would end the process on it without a word, and with one status for both signals.
    """

    def __init__(self, number: int) -> None:
        self.number = signal.Signals(number)
        super().__init__(_STOPPED[self.number])


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise _Stopped(number)


def main() -> None:
    """Run the command line; a user's mistake ends with one message on standard error and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal may know fewer characters than a table or a file's name has.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for number in _STOPPED:
        # Who starts a command in the background, or by nohup, may want a signal ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    try:
        status = app(sys.argv[1:] or ["--help"], prog_name="pliant", standalone_mode=False)
    except PliantError as error:
        _fail(str(error), _USAGE_ERROR)
    except _UsageError as error:
        command = error.ctx.command_path if error.ctx else "pliant"
        _fail(f"{error.format_message().rstrip('.')}. Try: {command} --help", _USAGE_ERROR)
    except _Stopped as stopped:
        message = f"{stopped}. The same command goes on: a measurement by itself, a ranking with --resume."
        _fail(message, 128 + stopped.number)
    sys.exit(status)


def _fail(message: str, status: int) -> NoReturn:
    Console(stderr=True, soft_wrap=True).print(Text.assemble(("error: ", "bold red"), message))
    sys.exit(status)
