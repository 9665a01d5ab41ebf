"""A function of the user's: whatever embeddings are good for, measured at every size."""

import importlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from traceback import extract_tb
from typing import Any

from torch import Tensor

from pliant.errors import InputError
from pliant.evaluation.metric import Metric, mean_metric
from pliant.evaluation.reading import Reading
from pliant.evaluation.tasks.task import Size

Embed = Callable[[Sequence[Any]], Tensor]
"""Gives the embeddings `[inputs, width]` of texts or images."""

FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    SystemExit,
    TypeError,
    ValueError,
)
"""What code of a user may raise: all of Python's own errors that aren't about the whole process."""

_ALLOWED = "a number, one number for each input as a tensor, or a dictionary of these by name"


@dataclass(frozen=True, eq=False)
class Function:
    """Calls `function(slim, full)`: two functions from inputs to embeddings, by the size and by the full model.

    Args:
        name: What its metrics are called: this, or this with the names that it gives.
        function: Returns a number, a tensor of one number for each input (whose mean then has an interval), or a
            dictionary of these by name.
        reading_of: Makes a reading of what it embeds.
    """

    name: str
    function: Callable[[Embed, Embed], Any]
    reading_of: Callable[[Sequence[Any]], Reading]
    _seen: dict[str, Reading] = field(default_factory=dict)

    @property
    def readings(self) -> tuple[Reading, ...]:
        """None that is known before."""
        return ()

    def score(self, full: Size, slim: Size) -> Mapping[str, Metric]:
        """Call it.

        Raises:
            InputError: It fails, or returns something else, or a number that isn't finite.
        """
        try:
            result = self.function(self._embed(slim), self._embed(full))
            if not isinstance(result, Mapping):
                return {self.name: self._metric(result)}
            metrics = {f"{self.name}.{name}": self._metric(value) for name, value in result.items()}
        except FAULTS as error:
            raise InputError(f"{self.name} failed{_told(error)}") from error
        if not metrics:
            raise InputError(f"{self.name} returned nothing. Allowed: {_ALLOWED}.")
        return metrics

    def _embed(self, size: Size) -> Embed:
        def embed(items: Sequence[Any]) -> Tensor:
            if isinstance(items, str):
                raise InputError(f"{self.name} embeds one string, {items!r:.60}. Give a list of texts.")
            # By their content: images of Pillow have no hash.
            reading = self.reading_of(tuple(items))
            return size(self._seen.setdefault(reading.digest, reading)).embeddings

        return embed

    def _metric(self, value: Any) -> Metric:
        if isinstance(value, Tensor) and value.dim() == 1 and len(value) and bool(value.isfinite().all()):
            return mean_metric(value)
        if isinstance(value, Tensor) and value.dim() == 0:
            value = value.item()
        if isinstance(value, (int, float)) and math.isfinite(value):
            return Metric(float(value))
        raise InputError(f"{self.name} returned {value!r:.60}. Allowed: {_ALLOWED}, all finite.")


def load_function(path: str) -> Callable[[Embed, Embed], Any]:
    """Return the function at `module:function`; modules in the current directory are found too.

    Raises:
        InputError: There is no such module, or no such function in it.
    """
    module, _, name = path.partition(":")
    if not name or not all(part.isidentifier() for part in module.split(".")):
        raise InputError(f"{path!r} names no function. Write module:function.")
    with _current_directory():
        try:
            found = getattr(importlib.import_module(module), name, None)
        except ModuleNotFoundError as error:
            raise InputError(
                f"{path}: there is no module {error.name!r}, neither installed nor in the current directory."
            ) from error
        except FAULTS as error:
            raise InputError(f"{path}: {module} can't be imported{_told(error)}") from error
    if not callable(found):
        raise InputError(f"{path}: {module} has no function {name!r}. Write module:function.")
    return found


def _told(error: BaseException) -> str:
    """Return where in the user's code an error arose, and what it says, on one line."""
    ours = (__file__, importlib.__file__)
    frames = [
        frame for frame in extract_tb(error.__traceback__) if frame.filename not in ours and "<" not in frame.filename
    ]
    where = f" in {Path(frames[0].filename).name}, line {frames[0].lineno}" if frames else ""
    return f"{where}: {type(error).__name__}: {' '.join(str(error).split()):.200}. Correct it."


@contextmanager
def _current_directory() -> Iterator[None]:
    """Let modules of the current directory be imported while the block runs."""
    sys.path.insert(0, "")
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove("")
