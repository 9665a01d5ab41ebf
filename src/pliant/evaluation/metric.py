"""A measured number and its confidence interval, by bootstrap over the inputs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pliant.errors import InputError

RESAMPLES = 1000
"""How often the inputs are drawn anew."""

LEVEL = 0.95
"""The share of the resampled numbers that an interval holds."""

Statistic = Callable[[Tensor], Tensor]
"""Gives the number for each of several draws of inputs: from indices `[draws, inputs]` to `[draws]`."""

# 2²¹ indices are 16 MiB: the most that are drawn at once.
_INDICES = 2**21


@dataclass(frozen=True)
class Metric:
    """A measured number.

    Args:
        value: The number.
        low: Where its 95 % interval begins; None where it has none.
        high: Where the interval ends.
    """

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def margin(self) -> float | None:
        """Half the width of the interval: the number is "value ± margin"."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def bootstrapped(statistic: Statistic, inputs: int, *, recentred: bool = False, seed: int = 0) -> Metric:
    """Return a number and its percentile interval over 1,000 draws of the inputs, with replacement.

    Every call with one number of inputs and one seed draws the same: the intervals of two sizes are of the same draws.

    Args:
        statistic: Gives the number for draws of inputs.
        inputs: How many inputs there are; of a single one there is no interval.
        recentred: Move the interval so that the draws' mean is at the value. For numbers that inputs which occur twice
            push to one side, such as v-measure.
        seed: Of the draws.

    Raises:
        InputError: There are no inputs.

    Source:
        Efron, "Bootstrap methods: another look at the jackknife", 1979.

    Example:
        >>> import torch
        >>> hits = torch.tensor([1.0, 0.0, 1.0, 1.0])
        >>> bootstrapped(lambda drawn: hits[drawn].mean(dim=1), inputs=4)
        Metric(value=0.75, low=0.25, high=1.0)
    """
    if inputs < 1:
        raise InputError("There are no inputs, so there is nothing to average. Give at least one.")
    value = statistic(torch.arange(inputs)[None])[0].item()
    if inputs == 1:
        return Metric(value)
    found = torch.cat([statistic(drawn).double() for drawn in _draws(inputs, seed)])
    if recentred:
        found += value - found.nanmean()
    tail = (1 - LEVEL) / 2
    low, high = torch.nanquantile(found, torch.tensor([tail, 1 - tail], dtype=found.dtype)).tolist()
    return Metric(value, low, high)


def mean_metric(values: Tensor) -> Metric:
    """Return the mean of one number per input `[inputs]`, with its interval.

    Raises:
        InputError: There are no inputs.
    """
    numbers = values.double()
    return bootstrapped(lambda drawn: numbers[drawn].mean(dim=1), len(numbers))


def _draws(inputs: int, seed: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rows = max(1, _INDICES // inputs)
    for start in range(0, RESAMPLES, rows):
        yield torch.randint(inputs, (min(rows, RESAMPLES - start), inputs), generator=generator)
