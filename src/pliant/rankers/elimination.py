"""The order in which units leave when what their absence costs together is a quadratic form."""

import torch
from torch import Tensor


def eliminated(form: Tensor) -> Tensor:
    """Return the units `[units]` in the order in which they leave: each time the one that adds least.

    Without the units of a set S, the loss is Σ Q_uv over u and v in S. Ties break by index, the last one first.

    Args:
        form: Q, symmetric, float `[units, units]`.
    """
    last = len(form) - 1
    mirrored = form.flip(0, 1).cpu()
    added, doubled = mirrored.diagonal().clone(), 2 * mirrored
    order = torch.empty(len(form), dtype=torch.long)
    for step in range(len(form)):
        unit = int(added.argmin())
        order[step] = last - unit
        added += doubled[unit]
        added[unit] = torch.inf
    return order.to(form.device)


def reordered(scores: Tensor, order: Tensor) -> Tensor:
    """Return the same scores given out anew, the lowest to the first unit in `order`."""
    found = torch.empty_like(scores)
    found[order] = scores.sort().values
    return found
