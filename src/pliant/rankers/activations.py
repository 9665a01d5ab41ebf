"""Second moments of what consumers read: what the criteria that look at activations start from."""

from collections.abc import Iterator

import torch
from torch import Tensor

from pliant.rankers.calibration import Calibration, check_seen, rest_values, take_inputs

_HELD_ELEMENTS = 2**26
"""Elements of second moments that are held at once, if there is more than one site's: 256 MB in float32."""


def variances(calibration: Calibration) -> list[Tensor]:
    """Return for each site the variance of its consumer's inputs over all valid tokens, float64 `[units × width]`.

    Raises:
        InputError: The model can't take a batch, or no batch has a valid token.
    """
    sites = calibration.anatomy.sites
    means = rest_values(calibration.model, calibration.anatomy, calibration.observed(), "mean")
    squares = [torch.zeros_like(mean, dtype=torch.float64) for mean in means]
    counts = [0 for _ in sites]

    def add(index: int, inputs: Tensor) -> None:
        squares[index] += (inputs.double() - means[index]).square().sum(dim=0)
        counts[index] += len(inputs)

    for batch in calibration.observed():
        take_inputs(calibration.model, calibration.anatomy, batch, add)
    return [square / count for square, count in zip(squares, counts, strict=True)]


def second_moments(calibration: Calibration) -> Iterator[Tensor]:
    """Yield for each site, in order, E[d dᵀ] of d, its consumer's inputs less their rest values, over valid tokens.

    Each is float32 `[units × width, units × width]`. As many sites are looked at in one pass over the inputs as fit
    into memory of a fixed size together.

    Raises:
        InputError: The model can't take a batch, or no batch has a valid token.
    """
    for first, last in _passes([site.units * site.width for site in calibration.anatomy.sites]):
        yield from _moments(calibration, range(first, last))


def _passes(widths: list[int]) -> Iterator[tuple[int, int]]:
    first, held = 0, 0
    for index, width in enumerate(widths):
        if index > first and held + width**2 > _HELD_ELEMENTS:
            yield first, index
            first, held = index, 0
        held += width**2
    yield first, len(widths)


def _moments(calibration: Calibration, indices: range) -> list[Tensor]:
    rest = [calibration.rest[index] for index in indices]
    totals = [torch.zeros(len(values), len(values), device=values.device) for values in rest]
    counts = [0 for _ in indices]

    def add(index: int, inputs: Tensor) -> None:
        if index in indices:
            place = index - indices.start
            offsets = inputs.float() - rest[place]
            totals[place].addmm_(offsets.T, offsets)
            counts[place] += len(inputs)

    for batch in calibration.observed():
        take_inputs(calibration.model, calibration.anatomy, batch, add)
    check_seen(counts)
    return [total / count for total, count in zip(totals, counts, strict=True)]
