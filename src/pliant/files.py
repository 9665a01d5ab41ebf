"""Writing files and directories so that nobody ever sees a half-written one."""

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from pliant.errors import InputError

_FAILURES = (OSError, SafetensorError)
"""What a full disk raises; safetensors has an error of its own for it."""


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the block ends well, it becomes `path` in one step.

    Raises:
        InputError: The file can't be written there; what was at `path` is as before.
    """
    target = Path(path)
    temporary = _beside(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
        mode = stat.S_IMODE(temporary.stat().st_mode)
    except OSError as error:
        raise _unwritable(target, error) from error
    try:
        yield temporary
        _flush(temporary)
        # safetensors makes files that only their owner can read.
        temporary.chmod(mode)
        os.replace(temporary, target)
    except _FAILURES as error:
        raise _unwritable(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_directory(path: str | Path) -> Iterator[Path]:
    """Yield a temporary directory beside `path`; when the block ends well, it becomes `path` in one step.

    Raises:
        InputError: Something already is at `path`, or it can't be written; nothing is left behind.
    """
    target = Path(path)
    refuse_existing(target)
    temporary = _beside(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        mode = temporary.stat().st_mode & 0o666
    except OSError as error:
        raise _unwritable(target, error) from error
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _flush(file)
                file.chmod(mode)
        if target.exists():
            target.rmdir()
        os.replace(temporary, target)
    except _FAILURES as error:
        raise _unwritable(target, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_writable(path: str | Path) -> None:
    """Raise `InputError` unless a file can be written at `path`; nothing is left behind.

    For what is written only after long work.
    """
    target = Path(path)
    probe = _beside(target)
    absent: list[Path] = []
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        absent = [folder for folder in target.parents if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        with suppress(OSError):
            for folder in absent:
                folder.rmdir()


def refuse_existing(path: Path) -> None:
    """Raise `InputError` when something other than an empty directory already is at `path`, or nothing can be."""
    if path.name in ("", ".."):
        raise InputError(f"{str(path)!r} has no name of its own. Give the name of a directory to make.")
    try:
        present = path.exists() or path.is_symlink()
        empty = path.is_dir() and not path.is_symlink() and not any(path.iterdir())
    except OSError as error:
        raise _unwritable(path, error) from error
    if present and not empty:
        raise InputError(f"{path} already exists and is left as it is. Remove it, or choose another place.")


def digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _beside(target: Path) -> Path:
    """Return a name that nobody else uses, for what will become `target`."""
    return target.parent / f".{target.name}.{secrets.token_hex(4)}"


def _unwritable(path: Path, error: OSError | SafetensorError) -> InputError:
    reason = (isinstance(error, OSError) and error.strerror) or str(error)
    return InputError(f"Can't write {path}: {reason}. Choose a place where you may write and that has room.")
