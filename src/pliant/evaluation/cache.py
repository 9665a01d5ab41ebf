"""Outputs on disk: the full model's for the next time, the sizes' until a measurement is complete."""

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pliant.budget import Cut
from pliant.errors import InputError
from pliant.evaluation.reading import Outputs, Reading, in_order
from pliant.files import replacing
from pliant.ranking import Ranking, checksum

SHARD_INPUTS = 256
"""What a kill loses at most, and how many outputs of each size wait in memory until they are written."""

_SUFFIX = ".safetensors"


def default_folder() -> Path:
    """Return the folder for what may be deleted at any time: in $XDG_CACHE_HOME, or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pliant" / "evaluation"


class Shards:
    """A store in a folder of safetensors files, each with its checksum; damaged ones are as if they weren't there.

    Args:
        folder: The folder; it is made when there is something to write.
    """

    def __init__(self, folder: Path) -> None:
        """Count what is there."""
        self.folder = folder
        self._waiting: list[tuple[Tensor, Tensor | None]] = []
        self._written = self._usable()

    @property
    def done(self) -> int:
        """How many inputs there are outputs of."""
        return self._written + sum(len(embeddings) for embeddings, _ in self._waiting)

    def add_(self, embeddings: Tensor, token_cosines: Tensor | None) -> None:
        """Take one batch in, and write what has come together once it is enough."""
        self._waiting.append((embeddings, token_cosines))
        if self.done - self._written >= SHARD_INPUTS:
            self.flush_()

    def flush_(self) -> None:
        """Write what waits.

        Raises:
            InputError: It can't be written.
        """
        if not self._waiting:
            return
        tensors = {"embeddings": torch.cat([embeddings for embeddings, _ in self._waiting])}
        if cosines := [cosines for _, cosines in self._waiting if cosines is not None]:
            tensors["token_cosines"] = torch.cat(cosines)
        done = self.done
        with replacing(self.folder / f"{self._written:012d}{_SUFFIX}") as temporary:
            save_file(tensors, temporary, metadata={"sha256": checksum("", tensors)})
        self._waiting, self._written = [], done

    def outputs(self, order: Sequence[int]) -> Outputs:
        """Return all outputs, the first of them for item `order[0]`, in the order of the items.

        Raises:
            InputError: Some were deleted or damaged since they were written.
        """
        self.flush_()
        shards = [shard for file in self._files() if (shard := _load(file)) is not None]
        if sum(len(shard["embeddings"]) for shard in shards) != len(order):
            raise InputError(
                f"Outputs in {self.folder} were deleted or damaged meanwhile. Give the same command again."
            )
        cosines = [shard["token_cosines"] for shard in shards if "token_cosines" in shard]
        return in_order([shard["embeddings"] for shard in shards], cosines, order)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob(f"*{_SUFFIX}"))

    def _usable(self) -> int:
        """Return how many inputs whole shards without a gap cover; the others are deleted."""
        done = 0
        for file in self._files():
            shard = _load(file) if file.stem == f"{done:012d}" else None
            if shard is None:
                _remove(file)
                continue
            done += len(shard["embeddings"])
        return done


def _remove(file: Path) -> None:
    try:
        file.unlink()
    except OSError as error:
        raise InputError(
            f"{file} is damaged, and can't be deleted: {error.strerror}. Delete it, or pass --no-cache."
        ) from error


def _load(file: Path) -> dict[str, Tensor] | None:
    try:
        with safe_open(file, framework="pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - not a mapping
            whole = (opened.metadata() or {}).get("sha256") == checksum("", tensors)
    except (SafetensorError, OSError):
        return None
    return tensors if whole and "embeddings" in tensors else None


@dataclass(frozen=True)
class Cache:
    """A folder of outputs.

    Args:
        folder: The folder.
        model: What the full model is known by; its outputs stay for the next measurement.
    """

    folder: Path
    model: str
    _unfinished: list[Path] = field(default_factory=list)

    def store(self, ranking: Ranking, reading: Reading, cut: Cut | None) -> Shards:
        """Return the place for what one cut, or the full model, makes of a reading."""
        # The full model is the same whatever its units are ranked by.
        key = f"{ranking.fingerprint} {self.model} {reading.digest}"
        if cut is not None:
            key += f" {_made_of(ranking, cut)}"
        place = self.folder / ("full" if cut is None else "unfinished") / hashlib.sha256(key.encode()).hexdigest()[:40]
        if cut is not None:
            self._unfinished.append(place)
        return Shards(place)

    def finish(self) -> None:
        """Delete what the sizes gave: the measurement is complete."""
        for place in self._unfinished:
            shutil.rmtree(place, ignore_errors=True)


def _made_of(ranking: Ranking, cut: Cut) -> str:
    """Return what a cut is known by, beside the full model: which units are left, their stand-ins, and its map."""
    tensors = {"scores": ranking.scores, **{f"rest.{i}": rest for i, rest in enumerate(ranking.rest)}}
    if ranking.output_maps is not None and (found := ranking.output_maps.of(cut.widths)) is not None:
        tensors |= {"map.weight": found.weight, "map.bias": found.bias}
    return f"{checksum(ranking.rest_kind, tensors)} {cut.widths}"


@contextmanager
def opened_cache(folder: Path | None, model: str) -> Iterator[Cache]:
    """Yield a cache in a folder, or, without one or while another process works in it, in a temporary one.

    Args:
        folder: The folder; it is made. None for a temporary one.
        model: What the full model is known by, beside its fingerprint.

    Raises:
        InputError: The folder can't be made or written.
    """
    with _claimed(folder) as usable:
        if folder is not None and usable:
            yield Cache(folder, model)
            return
    with TemporaryDirectory(prefix="pliant-") as temporary:
        yield Cache(Path(temporary), model)


@contextmanager
def _claimed(folder: Path | None) -> Iterator[bool]:
    """Say whether this process alone works in the folder while the block runs; the lock ends with the process."""
    if folder is None:
        yield False
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise InputError(
            f"Can't write the cache {folder}: {error.strerror}. Choose another --cache, or pass --no-cache."
        ) from error
    try:
        yield _locked(handle)
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows has none
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Some network file systems know no locks.
        return True
    return True
