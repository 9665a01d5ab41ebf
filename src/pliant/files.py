"""Writing files and directories so that nobody ever sees a half-written one."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise _unwritable(target, error) from error
    temporary = Path(name)
    try:
        yield temporary
        _flush(temporary)
        temporary.chmod(0o666 & ~_umask())
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
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise _unwritable(target, error) from error
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _flush(file)
        temporary.chmod(0o777 & ~_umask())
        if target.exists():
            target.rmdir()
        os.replace(temporary, target)
    except _FAILURES as error:
        raise _unwritable(target, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _unwritable(path: Path, error: OSError | SafetensorError) -> InputError:
    reason = (isinstance(error, OSError) and error.strerror) or str(error)
    return InputError(f"Can't write {path}: {reason}. Choose a place where you may write and that has room.")
