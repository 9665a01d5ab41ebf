"""How closely a slim model's embeddings follow the full model's."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pliant.errors import InputError

WORST_SHARE = 0.05
"""The share of inputs that may be worse than `Fidelity.worst`."""


@dataclass(frozen=True)
class Fidelity:
    """Cosine similarity between the full and the slim model's embeddings of the same inputs.

    Args:
        cosine: Mean over the inputs.
        worst: 5th percentile: one input in twenty is worse.
    """

    cosine: float
    worst: float


def similarities(full: Tensor, slim: Tensor) -> Tensor:
    """Return the cosines of vectors along the last dimension, float64 `[...]`, never above 1 or below -1."""
    return functional.cosine_similarity(full.double(), slim.double(), dim=-1).clamp(-1, 1)


def fidelity(full: Tensor, slim: Tensor) -> Fidelity:
    """Compare two models' embeddings of the same inputs.

    Args:
        full: Embeddings by the full model, `[inputs, width]`.
        slim: Embeddings by the slim model, `[inputs, width]`.

    Raises:
        InputError: The shapes differ, or there are no inputs.

    Example:
        >>> import torch
        >>> fidelity(torch.eye(2), 3 * torch.eye(2))
        Fidelity(cosine=1.0, worst=1.0)
    """
    if full.dim() != 2 or full.shape != slim.shape or not len(full):
        raise InputError(
            f"Embeddings of shapes {list(full.shape)} and {list(slim.shape)} can't be compared. "
            "Both must be [inputs, width], for the same inputs."
        )
    cosines = similarities(full, slim)
    return Fidelity(cosine=cosines.mean().item(), worst=torch.quantile(cosines, WORST_SHARE).item())
