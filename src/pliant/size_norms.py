"""Size norms: how the gains and biases of a model's norms follow its size."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pliant.errors import InputError

KNOTS = (0.2, 0.35, 0.5, 0.65, 0.8)
"""The sparsities that corrections are learned at unless others are asked for."""

FIELDS = ("knots", "values")
"""The tensors of `SizeNorms`, in order."""


def at_sparsity(knots: Tensor, values: Tensor, sparsity: float) -> Tensor:
    """Return values between those at the knots, in straight lines that begin at zero for the full model.

    Args:
        knots: Rising sparsities in (0, 1), `[knots]`.
        values: A value at each knot, `[knots, ...]`; beyond the last one it stays as it is.
        sparsity: In [0, 1).

    Returns:
        The value there, `[...]`.
    """
    places = torch.cat([knots.new_zeros(1), knots])
    above = int(torch.searchsorted(places, sparsity))
    if above == 0:
        return torch.zeros_like(values[0])
    if above == len(places):
        return values[-1]
    share = float((sparsity - places[above - 1]) / (places[above] - places[above - 1]))
    upper = share * values[above - 1]
    return upper if above == 1 else upper + (1 - share) * values[above - 2]


@dataclass(frozen=True, eq=False)
class SizeNorms:
    """Corrections of a model's norms: at a size, each norm's output y becomes y + g ⊙ y + b.

    They go into the norms' own gains and biases, so they cost nothing when the model runs, and the full model has
    none.

    Args:
        knots: The sparsities that the corrections are given at, rising in (0, 1), float64 `[knots]`.
        values: g and b of each of the anatomy's norms at each knot, float32 `[knots, norms, 2, width]`.
    """

    knots: Tensor
    values: Tensor

    def __post_init__(self) -> None:
        """Refuse corrections that can't be applied."""
        if not (isinstance(self.knots, Tensor) and isinstance(self.values, Tensor)):
            raise InputError(f"Size norms are two tensors, not {self.knots!r:.40} and {self.values!r:.40}.")
        shapes = [list(self.knots.shape), list(self.values.shape)]
        if self.knots.dim() != 1 or self.values.dim() != 4 or shapes[1][::2] != [len(self.knots), 2]:
            raise InputError(f"Size norms have the shapes {shapes}; allowed: [knots] and [knots, norms, 2, width].")
        edges = torch.cat([self.knots.new_zeros(1), self.knots, self.knots.new_ones(1)])
        if not len(self.knots) or not bool((edges.diff() > 0).all()):
            raise InputError(f"Knots {self.knots.tolist()} aren't allowed: at least one, rising, between 0 and 1.")
        if not bool(torch.isfinite(self.values).all()):
            raise InputError("Size norms must be finite; some are NaN or infinite. Rank the model again.")

    def at(self, sparsity: float) -> Tensor:
        """Return g and b of each norm at a sparsity, float32 `[norms, 2, width]`."""
        return at_sparsity(self.knots, self.values, sparsity)
