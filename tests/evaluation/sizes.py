"""What stands in for an elastic model of eight units: its plans and costs, without any model."""

from pliant.budget import Cut
from pliant.cost import Cost


class EightUnits:
    """A cut keeps the first of them."""

    def plan(self, *, sparsity: float) -> Cut:
        return Cut((round(8 * (1 - sparsity)),))

    def cost(self, cut: Cut) -> Cost:
        return Cost(sparsity=1 - cut.widths[0] / 8, parameters=100 + cut.widths[0], macs=cut.widths[0] * 7, tokens=7)
