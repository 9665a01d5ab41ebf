"""What a cut costs: parameters and multiply-accumulates of the model that keeps given widths."""

from dataclasses import dataclass

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


def parameters_of(anatomy: Anatomy, widths: tuple[int, ...]) -> int:
    """All parameters of the cut that keeps `widths` units: what is left, and the biases that consumers gained."""
    others = sum(site.other_parameters(width) for site, width in zip(anatomy.sites, widths, strict=True))
    return anatomy.total_parameters - removed_parameters(anatomy, widths) + others


def cost_of(anatomy: Anatomy, widths: tuple[int, ...], tokens: int | None = None) -> Cost:
    """Return the cost of a cut that keeps `widths` units at the anatomy's sites.

    Args:
        anatomy: The model's anatomy.
        widths: Units kept at each site.
        tokens: Input length for the MACs; by default the anatomy's native one.
    """
    length = anatomy.native_tokens if tokens is None else tokens
    return Cost(
        sparsity=removed_parameters(anatomy, widths) / anatomy.prunable_parameters,
        parameters=parameters_of(anatomy, widths),
        macs=anatomy.macs(length, widths),
        tokens=length,
    )
