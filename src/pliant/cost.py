"""What a cut costs: parameters and multiply-accumulates of the model that keeps given widths."""

from dataclasses import dataclass
from typing import NamedTuple

from pliant.anatomy import Anatomy


@dataclass(frozen=True)
class Cost:
    """The size of a cut model, in the three measures that users confuse.

    Args:
        sparsity: Fraction of the prunable parameters that is gone.
        parameters: All parameters that the cut model has.
        macs: Multiply-accumulates for one input of `tokens` tokens.
        tokens: The input length that `macs` is stated at.
    """

    sparsity: float
    parameters: int
    macs: int
    tokens: int


def removed_parameters(anatomy: Anatomy, widths: tuple[int, ...]) -> int:
    """Prunable parameters that leave when each site keeps `widths` of its units."""
    return sum((site.units - width) * site.unit_parameters for site, width in zip(anatomy.sites, widths, strict=True))


def cost_of(anatomy: Anatomy, widths: tuple[int, ...], tokens: int | None = None, *, mapped: bool = False) -> Cost:
    """Return the cost of a cut that keeps `widths` units at the anatomy's sites.

    Args:
        anatomy: The model's anatomy.
        widths: Units kept at each site.
        tokens: Input length for the MACs; by default the anatomy's native one.
        mapped: Whether an output map follows it.
    """
    length = anatomy.native_tokens if tokens is None else tokens
    removed = removed_parameters(anatomy, widths)
    others = sum(site.other_parameters(width) for site, width in zip(anatomy.sites, widths, strict=True))
    follows = _map_cost(anatomy, length) if mapped else _MapCost(0, 0)
    return Cost(
        sparsity=removed / anatomy.prunable_parameters,
        parameters=anatomy.total_parameters - removed + others + follows.parameters,
        macs=anatomy.macs(length, widths) + follows.macs,
        tokens=length,
    )


class _MapCost(NamedTuple):
    """What an output map adds to a cut."""

    parameters: int
    macs: int


def _map_cost(anatomy: Anatomy, tokens: int) -> _MapCost:
    assert anatomy.output is not None
    width = anatomy.output.width
    return _MapCost(width * (width + 1), tokens * width * width)
