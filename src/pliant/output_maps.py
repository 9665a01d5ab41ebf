"""Output maps: for one cut each, what its token outputs go through to come nearer to the full model's."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from pliant.errors import InputError


class OutputMap(NamedTuple):
    """A cut's outputs y `[..., width]` become y + W y + b.

    Args:
        weight: W, `[width, width]`.
        bias: b, `[width]`.
    """

    weight: Tensor
    bias: Tensor


FIELDS = ("widths", "weights", "biases", "alignment")
"""The tensors of `OutputMaps`, in order."""


@dataclass(frozen=True, eq=False)
class OutputMaps:
    """The maps of some cuts of one model.

    A map belongs to its cut alone: what one cut gets wrong, a somewhat larger one does not.

    Args:
        widths: Units that each cut keeps at each site, int64 `[maps, sites]`.
        weights: Float32 `[maps, width, width]`.
        biases: Float32 `[maps, width]`.
        alignment: The multiples of neurons and of heads that the widths have, int64 `[2]`.
    """

    widths: Tensor
    weights: Tensor
    biases: Tensor
    alignment: Tensor

    def __post_init__(self) -> None:
        """Refuse maps that can't be applied."""
        tensors = tuple(getattr(self, name) for name in FIELDS)
        if not all(isinstance(tensor, Tensor) for tensor in tensors):
            raise InputError(f"Output maps are tensors, not {', '.join(type(value).__name__ for value in tensors)}.")
        shapes = [list(tensor.shape) for tensor in tensors]
        maps, width = shapes[1][0] if shapes[1] else 0, self.width
        if self.widths.dim() != 2 or shapes != [[maps, self.widths.shape[1]], [maps, width, width], [maps, width], [2]]:
            raise InputError(
                f"Output maps have the shapes {shapes}; allowed: [maps, sites], [maps, width, width], [maps, width] "
                "and [2]."
            )
        if self.widths.dtype != torch.int64 or self.alignment.dtype != torch.int64 or (self.alignment < 1).any():
            raise InputError("The widths and the alignment of output maps are int64, the alignment at least 1.")
        if len(self.places) != maps:
            raise InputError("Two output maps belong to the same cut. Keep one of them.")
        if not (torch.isfinite(self.weights).all() and torch.isfinite(self.biases).all()):
            raise InputError("Output maps must be finite; some are NaN or infinite. Fit them again.")

    @property
    def width(self) -> int:
        """Entries of one token's output."""
        return self.biases.shape[-1] if self.biases.dim() else 0

    @cached_property
    def places(self) -> dict[tuple[int, ...], int]:
        """The widths of each cut that has a map, and where the map is."""
        return {tuple(widths): place for place, widths in enumerate(self.widths.tolist())}

    def __contains__(self, widths: object) -> bool:
        """Say whether the cut of these widths has a map."""
        return widths in self.places

    def of(self, widths: tuple[int, ...]) -> OutputMap | None:
        """Return the map of the cut of these widths, if it has one."""
        place = self.places.get(widths)
        return None if place is None else OutputMap(self.weights[place], self.biases[place])

    def to(self, like: Tensor) -> "OutputMaps":
        """Return the same maps on the device and in the precision of a tensor."""
        return OutputMaps(self.widths, self.weights.to(like), self.biases.to(like), self.alignment)
