"""Measured times of a ladder of cuts, and the size that is quick enough: what budgets of time rest on."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pliant.errors import ArtefactError, BudgetError, InputError
from pliant.files import replacing

FORMAT = 1
"""Version of the JSON that `Times.save` writes."""

TIMES = "pliant.times.json"
"""The file of an elastic directory that holds them."""

Timed = Literal["latency_ms", "throughput"]


@dataclass(frozen=True)
class Times:
    """How long a ladder of cuts takes on one machine.

    Between two sizes that were measured, time is taken to fall in a straight line; beyond them nothing is assumed.

    Args:
        machine: What they were measured on, as `pliant.machine.described` says it.
        tokens: Length of the inputs.
        batch_size: Inputs in a batch, for the throughput.
        sparsities: The sizes, ascending.
        widths: For each size, the units that its cut keeps at each site: times are of these cuts.
        latency_ms: For each size, the median time of one input; what comes from noise alone is levelled out.
        batch_ms: For each size, the median time of a batch; levelled likewise.
        margin: The share by which a size may take longer than measured; budgets are met with it.

    Raises:
        InputError: There are no sizes, they don't ascend, or a time, length or margin isn't positive.
    """

    machine: str
    tokens: int
    batch_size: int
    sparsities: tuple[float, ...]
    widths: tuple[tuple[int, ...], ...]
    latency_ms: tuple[float, ...]
    batch_ms: tuple[float, ...]
    margin: float = 0.1

    def __post_init__(self) -> None:
        """Level the times out: a smaller size takes no longer than a larger one."""
        count = len(self.sparsities)
        lengths = {len(self.widths), len(self.latency_ms), len(self.batch_ms), count}
        if not count or lengths != {count} or any(one >= other for one, other in pairwise(self.sparsities)):
            raise InputError(f"Times are of one or more sizes, ascending; these are of {self.sparsities}.")
        if not isinstance(self.machine, str):
            raise InputError(f"A machine has a name, not {self.machine!r:.60}.")
        positive = (*self.latency_ms, *self.batch_ms, self.tokens, self.batch_size)
        if not all(0 < number < math.inf for number in positive):
            raise InputError("Times, lengths and batch sizes are positive; some of these aren't. Measure them again.")
        if not 0 <= self.margin < math.inf:
            raise InputError(f"A margin of {self.margin} means nothing. Give a share from 0 on, such as 0.1.")
        object.__setattr__(self, "latency_ms", tuple(falling(self.latency_ms)))
        object.__setattr__(self, "batch_ms", tuple(falling(self.batch_ms)))

    def sparsity(self, measure: Timed, limit: float) -> float:
        """Return the lowest sparsity that meets a budget, the margin included.

        Args:
            measure: `latency_ms`, the most milliseconds that one input may take, or `throughput`, the fewest inputs
                that there must be in a second.
            limit: The value, in that measure.

        Raises:
            BudgetError: Even the smallest size that was measured is too slow.
        """
        times = self.latency_ms if measure == "latency_ms" else self.batch_ms
        most = limit if measure == "latency_ms" else 1000 * self.batch_size / limit
        most /= 1 + self.margin
        if times[0] <= most:
            return self.sparsities[0]
        steps = zip(pairwise(self.sparsities), pairwise(times), strict=True)
        for (larger, smaller), (slower, quicker) in steps:
            if quicker <= most:
                return min(smaller, larger + (smaller - larger) * (slower - most) / (slower - quicker))
        best = times[-1] * (1 + self.margin)
        reached = best if measure == "latency_ms" else 1000 * self.batch_size / best
        raise BudgetError(
            f"{measure}={limit} can't be met: the smallest size that was measured, sparsity {self.sparsities[-1]}, "
            f"has {reached:.4g} with the margin of {self.margin:.0%}, on {self.machine}. "
            "Ask for that, or measure smaller sizes: pliant bench --store --sparsity ..."
        )

    def check_tokens(self, tokens: int | None) -> None:
        """Raise `BudgetError` where another length is asked for than was measured."""
        if tokens is not None and tokens != self.tokens:
            raise BudgetError(
                f"tokens={tokens}, but times were measured with {self.tokens}. Leave tokens out, or measure again: "
                f"pliant bench --store --tokens {tokens}."
            )

    def check_machine(self, here: str) -> None:
        """Raise `BudgetError` unless they were measured on the machine that is described."""
        if here != self.machine:
            raise BudgetError(
                f"Times were measured on {self.machine}, but the model is on {here}, where they say nothing. "
                "Measure again there: pliant bench --store."
            )

    def save(self, directory: str | Path) -> None:
        """Write the times into an elastic directory; older ones are replaced.

        Raises:
            InputError: The file can't be written.
        """
        with replacing(Path(directory) / TIMES) as temporary:
            temporary.write_text(json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, directory: str | Path) -> "Times | None":
        """Read the times of an elastic directory; None where nothing was measured.

        Raises:
            ArtefactError: The file is damaged, or another version wrote it.
        """
        path = Path(directory) / TIMES
        if not path.is_file():
            return None
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return cls._from_json(data)
        except (OSError, ValueError, TypeError, LookupError, InputError) as error:
            raise ArtefactError(f"{path} can't be used ({error}). Remove it, or measure again.") from error

    @classmethod
    def _from_json(cls, data: Mapping[str, Any]) -> "Times":
        if data["format"] != FORMAT:
            raise ValueError(f"its format is {data['format']}, not {FORMAT}")
        found = {field.name: data[field.name] for field in fields(cls)}
        found["widths"] = tuple(tuple(int(width) for width in widths) for widths in found["widths"])
        for name in ("sparsities", "latency_ms", "batch_ms"):
            found[name] = tuple(float(number) for number in found[name])
        return cls(**found)


def falling(values: Sequence[float]) -> list[float]:
    """Return the non-increasing values that are nearest in squares: where values rise, their mean.

    Source:
        Ayer, Brunk, Ewing, Reid and Silverman, "An empirical distribution function for sampling with incomplete
        information" (1955): pool adjacent violators.

    Example:
        >>> falling([10.0, 6.0, 8.0, 3.0])
        [10.0, 7.0, 7.0, 3.0]
    """
    pools: list[list[float]] = []
    for value in values:
        pools.append([value])
        while len(pools) > 1 and _mean(pools[-2]) < _mean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    return [_mean(pool) for pool in pools for _ in pool]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
