"""The frame around the commands: help, usage errors, signals."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pliant.cli import main


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_is_shown(pliant: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    result = pliant(*arguments)
    assert (result.status, result.err) == (0, "")
    assert all(command in result.out for command in ("Usage: pliant", "describe", "rank", "eval", "cut"))


@pytest.mark.parametrize("command", ["describe", "rank", "eval", "cut"])
def test_every_command_has_help(pliant: Callable[..., Any], command: str) -> None:
    result = pliant(command, "--help")
    assert result.status == 0 and f"Usage: pliant {command}" in result.out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("prune",), "No such command 'prune'. Try: pliant --help"),
        (("rank", "model"), "Missing option '--data'. Try: pliant rank --help"),
        (("eval",), "Missing argument"),
        (("cut", "a", "--out", "b", "--sparsity", "abc"), "'--sparsity'"),
        (("rank", "a", "--data", "b", "--out", "c", "--steps", "1.5"), "'--steps'"),
        (("describe", "model", "--shape"), "--shape"),
    ],
)
def test_usage_errors_read_like_all_others(refused: Callable[..., str], arguments: tuple[str, ...], named: str) -> None:
    assert named in refused(*arguments)


@pytest.mark.parametrize(
    ("number", "status", "said"), [(signal.SIGINT, 130, "Interrupted"), (signal.SIGTERM, 143, "Terminated")]
)
def test_a_signal_ends_a_command(
    pliant: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    status: int,
    said: str,
) -> None:
    monkeypatch.setattr("pliant.checkpoint._directory_of", lambda name: signal.raise_signal(number))
    result = pliant("describe", "model")
    assert result.status == status
    assert result.err.startswith(f"error: {said}.") and "Traceback" not in result.err


def test_a_signal_that_was_ignored_stays_so(pliant: Callable[..., Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert pliant("--help").status == 0
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_bug_is_not_hidden(pliant: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(name: str) -> Path:
        raise ZeroDivisionError

    monkeypatch.setattr("sys.argv", ["pliant", "describe", str(tmp_path)])
    monkeypatch.setattr("pliant.checkpoint._directory_of", broken)
    with pytest.raises(ZeroDivisionError):
        main()


def test_an_interrupt_while_libraries_load() -> None:
    code = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "import pliant.cli\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "error: Interrupted.\n")
