"""What was measured: how fast each size is, on what, and how."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeVar

from pliant.errors import InputError

FORMAT = 1
"""Version of the JSON that `Speed.to_json` writes."""

Form = Literal["original", "view", "cut"]

FORMS: tuple[Form, ...] = ("original", "view", "cut")


@dataclass(frozen=True)
class Timing:
    """How long one size takes for batches of one number of inputs.

    Args:
        batch_size: Inputs in a batch.
        rounds: How often it was timed.
        p50_ms: The median, in milliseconds.
        p99_ms: The 99th percentile by nearest rank: of fewer than 100 turns, the longest.
        peak_bytes: The most that activations take at one time; None where it can't be measured.
    """

    batch_size: int
    rounds: int
    p50_ms: float
    p99_ms: float
    peak_bytes: int | None = None

    @property
    def items_per_second(self) -> float:
        """Inputs in a second, at the median."""
        return 1000 * self.batch_size / self.p50_ms


@dataclass(frozen=True)
class Size:
    """One model of the ladder.

    Args:
        form: `original` is the untouched model, `view` shares its weights, `cut` has its own.
        sparsity: What was asked for.
        achieved_sparsity: Removed fraction of the prunable parameters, after alignment.
        parameters: All parameters of the model.
        macs: Multiply-accumulates for one input.
        timings: One for each batch size.
    """

    form: Form
    sparsity: float
    achieved_sparsity: float
    parameters: int
    macs: int
    timings: tuple[Timing, ...]

    def timing(self, batch_size: int) -> Timing:
        """Return the timing of one batch size, which must have been measured."""
        return next(timing for timing in self.timings if timing.batch_size == batch_size)


@dataclass(frozen=True)
class Switching:
    """How long it takes to change to another size, in milliseconds.

    Args:
        count: How many sizes, drawn at random, were changed to.
        built_p50_ms: Median for a size that is asked for the first time: planned and built.
        built_p99_ms: Its 99th percentile.
        cached_p50_ms: Median for a size that was used before: a look-up.
        cached_p99_ms: Its 99th percentile.
    """

    count: int
    built_p50_ms: float
    built_p99_ms: float
    cached_p50_ms: float
    cached_p99_ms: float


@dataclass(frozen=True)
class Speed:
    """How fast every size of a model is.

    Args:
        model: The model's name.
        ranker: How its units were ranked.
        device: What it ran on: `cpu`, `cuda` and so on.
        device_name: What the device is called.
        threads: How many threads of the CPU torch used.
        precision: The dtype of the weights.
        torch: The version of torch.
        tokens: Length of an input; for images, patches and prefix tokens.
        image_size: Height and width of an image in pixels; None for texts.
        sizes: The untouched model first.
        switching: How long a change of size takes; None where it wasn't measured.
    """

    model: str
    ranker: str
    device: str
    device_name: str
    threads: int
    precision: str
    torch: str
    tokens: int
    image_size: tuple[int, int] | None
    sizes: tuple[Size, ...]
    switching: Switching | None = None

    @property
    def original(self) -> Size:
        """The untouched model."""
        return self.sizes[0]

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """The batch sizes that every model was timed with."""
        return tuple(timing.batch_size for timing in self.original.timings)

    def of(self, form: Form) -> tuple[Size, ...]:
        """Return the sizes of one form, the largest first."""
        return tuple(size for size in self.sizes if size.form == form)

    def speedup(self, size: Size, batch_size: int) -> float:
        """Return how many times as fast as the untouched model a size is, by the medians."""
        return self.original.timing(batch_size).p50_ms / size.timing(batch_size).p50_ms

    def macs_ratio(self, size: Size) -> float:
        """Return how many times as many MACs the untouched model has: the speed-up if time were arithmetic alone."""
        return self.original.macs / size.macs

    def to_json(self) -> dict[str, Any]:
        """Return the measurement as a dictionary that JSON can hold, with the figures that follow from it."""
        sizes = [
            {
                **_plain(size),
                "macs_ratio": self.macs_ratio(size),
                "timings": [
                    {
                        **asdict(timing),
                        "items_per_second": timing.items_per_second,
                        "speedup": self.speedup(size, timing.batch_size),
                    }
                    for timing in size.timings
                ],
            }
            for size in self.sizes
        ]
        image_size = None if self.image_size is None else list(self.image_size)
        switching = None if self.switching is None else asdict(self.switching)
        return {
            "format": FORMAT,
            **_plain(self),
            "image_size": image_size,
            "sizes": sizes,
            "switching": switching,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Speed":
        """Return the measurement that `to_json` wrote.

        Raises:
            InputError: A part is missing or no number, or another version wrote it.
        """
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise InputError(f"This is no saved measurement of speed of format {FORMAT}. Measure it again.")
        sizes = tuple(
            _made(Size, size, timings=tuple(_made(Timing, timing) for timing in _list(size, "timings")))
            for size in _list(data, "sizes")
        )
        if not sizes or sizes[0].form != "original" or any(size.form not in FORMS for size in sizes):
            raise InputError("A saved measurement of speed begins with the original model. Measure it again.")
        batches = [tuple(timing.batch_size for timing in size.timings) for size in sizes]
        if not batches[0] or any(found != batches[0] for found in batches):
            raise InputError(f"Not every size was timed with the same batch sizes: {batches}. Measure it again.")
        switched = data.get("switching")
        return _made(
            cls,
            data,
            image_size=_image_size(data.get("image_size")),
            sizes=sizes,
            switching=None if switched is None else _made(Switching, switched),
        )


def _plain(value: Any) -> dict[str, Any]:
    """Return a dataclass's own fields, in order, nested ones as they are."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _list(data: Any, name: str) -> list[Any]:
    found = data.get(name) if isinstance(data, Mapping) else None
    if not isinstance(found, list):
        raise InputError(f"Not a saved measurement of speed: {name} is no list. Measure it again.")
    return found


_Made = TypeVar("_Made")

_TEXTS = ("form", "model", "ranker", "device", "device_name", "precision", "torch")
"""Fields that hold text; those of all others hold numbers."""


def _made(kind: type[_Made], data: Any, **nested: Any) -> _Made:
    """Return a dataclass from its part of the JSON; what only follows from its fields is left out."""
    names = [field.name for field in fields(kind)]  # pyright: ignore[reportArgumentType] - only dataclasses come here
    given = {**data, **nested} if isinstance(data, Mapping) else nested
    if missing := sorted(set(names) - set(given)):
        raise InputError(f"Not a saved measurement of speed: {missing} are missing. Measure it again.")
    for name in sorted(set(names) - set(nested)):
        value = given[name]
        fits = isinstance(value, str) if name in _TEXTS else _is_number(value, name)
        if not fits and not (name == "peak_bytes" and value is None):
            what = "text" if name in _TEXTS else "number that it can be"
            raise InputError(f"Not a saved measurement of speed: {name} is {value!r:.40}, no {what}. Measure it again.")
    return kind(**{name: given[name] for name in names})


def _is_number(value: Any, name: str) -> bool:
    """Say whether it is a number that a time, a size or a count can be; what is divided by isn't zero."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
        return False
    return value > 0 or name.endswith(("sparsity", "peak_bytes"))


def _image_size(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or len(value) != 2 or not all(_is_number(side, "side") for side in value):
        raise InputError(f"Not a saved measurement of speed: image_size is {value!r:.40}. Measure it again.")
    return value[0], value[1]
