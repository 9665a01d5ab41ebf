"""What removed units still contribute: a constant for each width that a site can have."""

import torch
from torch import Tensor, nn

from pliant.anatomy import Site

_MARKS = 12


class RestBias:
    """The rest biases of one site, tabulated at about a dozen widths.

    A full table over all widths would weigh several percent of the model. Between two marks, the few columns that are
    left are multiplied when a view is built.
    """

    def __init__(self, site: Site, consumer: nn.Linear, rest: Tensor) -> None:
        """Tabulate the sums once, in float64.

        Args:
            site: The site, its units already in order of score.
            consumer: Its consumer, whose columns are in that order.
            rest: Its rest values `[units × width]`, in that order.
        """
        self._site = site
        self._consumer = consumer
        self._rest = rest.to(consumer.weight.device, torch.float32)
        self._every = max(1, -(-site.units // _MARKS))
        self._marks = self._tabulate(rest)

    def _tabulate(self, rest: Tensor) -> Tensor:
        """Return for each mark the contribution of all units from there on, float32 `[marks + 1, outputs]`."""
        weight = self._consumer.weight.detach()
        columns = self._every * self._site.width
        values = rest.to(weight.device).double()
        blocks = [
            weight[:, start : start + columns].double() @ values[start : start + columns]
            for start in range(0, weight.shape[1], columns)
        ]
        blocks.append(torch.zeros(weight.shape[0], dtype=torch.float64, device=weight.device))
        return torch.stack(blocks).flip(0).cumsum(0).flip(0).float()

    def at(self, width: int) -> Tensor | None:
        """Return the consumer's bias when the first `width` units are kept, `[outputs]`.

        None where the consumer has none and all units are kept.
        """
        consumer = self._consumer
        own = None if consumer.bias is None else consumer.bias.detach()
        if width == self._site.units:
            return own
        mark = -(-width // self._every)
        start, stop = width * self._site.width, min(mark * self._every, self._site.units) * self._site.width
        rest_bias = self._marks[mark] + consumer.weight.detach()[:, start:stop].float() @ self._rest[start:stop]
        return (rest_bias if own is None else own.float() + rest_bias).to(consumer.weight.dtype)
