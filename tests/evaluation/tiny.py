"""Models of one matrix, in eight sizes, that count the inputs they see."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pliant.budget import Cut
from pliant.cost import Cost
from pliant.ranking import Ranking


class Linear(nn.Module):
    """Maps each token by one matrix; in training, it forgets some of the result."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.dropout = nn.Dropout(0.5)
        self.seen = 0

    def forward(self, values: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        self.seen += len(values)
        return self.dropout(values @ self.weight)


class Sizes:
    """Eight units, one a channel: a cut forgets the last ones."""

    def __init__(self) -> None:
        weight = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))
        self.models = {width: Linear(weight * (torch.arange(8) < width)[:, None] + 0.01) for width in range(1, 9)}

    def plan(self, *, sparsity: float) -> Cut:
        return Cut((round(8 * (1 - sparsity)),))

    def at(self, *, sparsity: float) -> Linear:
        return self.models[self.plan(sparsity=sparsity).widths[0]]

    def cost(self, cut: Cut) -> Cost:
        return Cost(sparsity=1 - cut.widths[0] / 8, parameters=100 + cut.widths[0], macs=cut.widths[0] * 7, tokens=7)


def batches_of(texts: Sequence[str]) -> list[Tensor]:
    """Two texts a batch, three tokens a text, which depend on its length."""
    lengths = torch.tensor([[float(len(text))] for text in texts])
    values = torch.sin(lengths[:, :, None] * torch.arange(1.0, 25.0).reshape(1, 3, 8))
    return list(values.split(2))


def ranking() -> Ranking:
    """The ranking of the sizes."""
    return Ranking(torch.arange(8.0), (torch.zeros(8),), "mean", "f" * 64, {})
