"""How alike two models' embeddings of the same inputs are: cosines, and linear CKA."""

import torch
from torch import Tensor
from torch.nn import functional

from pliant.errors import InputError
from pliant.evaluation.metric import Metric, bootstrapped

WORST_SHARE = 0.05
"""The share of inputs that may be worse than the worst cosine."""

CKA_INPUTS = 1000
"""CKA looks at the similarities of every two inputs, so at no more inputs than this: 8 MB for each matrix of them."""


def similarities(full: Tensor, slim: Tensor) -> Tensor:
    """Return the cosines of vectors along the last dimension, float64 `[...]`, never above 1 or below -1."""
    return functional.cosine_similarity(full.double(), slim.double(), dim=-1).clamp(-1, 1)


def check_same_inputs(full: Tensor, slim: Tensor) -> None:
    """Raise `InputError` unless both are embeddings `[inputs, width]` of the same inputs."""
    if full.dim() != 2 or full.shape != slim.shape or not len(full):
        raise InputError(
            f"Embeddings of shapes {list(full.shape)} and {list(slim.shape)} can't be compared. "
            "Both must be [inputs, width], for the same inputs."
        )


def linear_cka(full: Tensor, slim: Tensor) -> Metric:
    """Return the linear centred kernel alignment of two models' embeddings, from 0 to 1, with its interval.

    It is 1 where they differ by a rotation, a scale and a shift alone. Of more than 1,000 inputs, 1,000 are drawn with
    a fixed seed.

    Args:
        full: Embeddings by the full model, `[inputs, width]`.
        slim: Embeddings by the slim model, `[inputs, width]`.

    Raises:
        InputError: The shapes differ, or there are no inputs.

    Source:
        Kornblith et al., "Similarity of neural network representations revisited", 2019.
    """
    check_same_inputs(full, slim)
    chosen = torch.randperm(len(full), generator=torch.Generator().manual_seed(0))[:CKA_INPUTS]
    kernels = [embeddings[chosen].double() @ embeddings[chosen].double().T for embeddings in (full, slim)]

    def alignment(drawn: Tensor) -> Tensor:
        counts = torch.zeros(len(chosen), len(drawn), dtype=torch.float64)
        counts.scatter_add_(0, drawn.T, torch.ones(drawn.T.shape, dtype=torch.float64))
        weighted = [kernel @ counts for kernel in kernels]
        mixed, own, other = (_hsic(kernels, weighted, counts, pair) for pair in ((0, 1), (0, 0), (1, 1)))
        # All inputs alike, or one alone: nothing varies, so nothing differs.
        return torch.where(own * other > 0, mixed / (own * other).clamp(min=1e-300).sqrt(), 1.0).clamp(0, 1)

    # Inputs that are drawn twice are alike in both models, which raises CKA.
    return bootstrapped(alignment, len(chosen), recentred=True)


def _hsic(kernels: list[Tensor], weighted: list[Tensor], counts: Tensor, pair: tuple[int, int]) -> Tensor:
    """Return Σ_ij of two centred kernels' products `[draws]`, where input i occurs `counts[i]` times in a draw."""
    one, other = pair
    inputs = counts.sum(dim=0)
    products = (counts * ((kernels[one] * kernels[other]) @ counts)).sum(dim=0)
    rows = (counts * weighted[one] * weighted[other]).sum(dim=0)
    totals = (counts * weighted[one]).sum(dim=0) * (counts * weighted[other]).sum(dim=0)
    return products - 2 * rows / inputs + totals / inputs**2
