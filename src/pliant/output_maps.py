"""Affine maps from a cut's token outputs to the full model's: what compensates beyond constants."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pliant.errors import InputError


class OutputMap(NamedTuple):
    """What follows a cut's outputs y `[..., width]`: they become y + gain · (W y + b).

    Args:
        weight: W, `[width, width]`.
        bias: b, `[width]`.
        gain: How strongly it acts.
    """

    weight: Tensor
    bias: Tensor
    gain: float


@dataclass(frozen=True, eq=False)
class OutputMaps:
    """One map for each of some sparsities; between them, the nearest one acts in proportion to the sparsity.

    So all sizes near one of them share its weights, and the full model is left as it is.

    Args:
        sparsities: Where the maps were fitted, ascending, each in (0, 1), float64 `[maps]`.
        weights: Float32 `[maps, width, width]`.
        biases: Float32 `[maps, width]`.
    """

    sparsities: Tensor
    weights: Tensor
    biases: Tensor

    def __post_init__(self) -> None:
        """Refuse maps that can't be applied."""
        tensors = (self.sparsities, self.weights, self.biases)
        if not all(isinstance(tensor, Tensor) for tensor in tensors):
            raise InputError("Output maps are tensors: sparsities [maps], weights [maps, width, width], biases.")
        shapes = [list(tensor.shape) for tensor in tensors]
        maps, width = len(self.sparsities.reshape(-1)), self.biases.shape[-1] if self.biases.dim() else 0
        if shapes != [[maps], [maps, width, width], [maps, width]] or not maps:
            raise InputError(
                f"Output maps have the shapes {shapes}; allowed: [maps], [maps, width, width], [maps, width]."
            )
        ascending = bool((self.sparsities.diff() > 0).all())
        if not ascending or not 0 < float(self.sparsities[0]) <= float(self.sparsities[-1]) < 1:
            raise InputError(f"Output maps are at sparsities {self.sparsities.tolist()}; they ascend within (0, 1).")
        if not all(torch.isfinite(tensor).all() for tensor in tensors):
            raise InputError("Output maps must be finite; some are NaN or infinite. Rank the model again.")

    @property
    def width(self) -> int:
        """Entries of one token's output."""
        return self.biases.shape[1]

    def at(self, sparsity: float) -> OutputMap:
        """Return the map for a cut of that sparsity; its tensors are shared by all sizes near it."""
        nearest = int((self.sparsities - sparsity).abs().argmin())
        gain = sparsity / float(self.sparsities[nearest])
        return OutputMap(self.weights[nearest], self.biases[nearest], gain)

    def to(self, like: Tensor) -> "OutputMaps":
        """Return the same maps on the device and in the precision of a tensor."""
        return OutputMaps(self.sparsities, self.weights.to(like), self.biases.to(like))
