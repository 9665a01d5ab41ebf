"""The sizes of a curve, all planned and priced before the first of them runs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from torch import nn

from pliant.budget import Cut
from pliant.cost import Cost
from pliant.errors import InputError
from pliant.evaluation.curve import Curve, Point
from pliant.evaluation.fidelity import Fidelity


class Sizes(Protocol):
    """The part of `Elastic` that an evaluation needs."""

    def at(self, *, sparsity: float) -> nn.Module:
        """Return the model of that size."""
        ...

    def plan(self, *, sparsity: float) -> Cut:
        """Return the cut of that size."""
        ...

    def cost(self, cut: Cut) -> Cost:
        """Return what `cut` costs."""
        ...


def ascending(sparsities: Iterable[float]) -> tuple[float, ...]:
    """Return each sparsity once, the largest model first.

    Raises:
        InputError: There are none.
    """
    sizes = tuple(sorted(set(sparsities)))
    if not sizes:
        raise InputError("No sparsities: at least one size is needed, such as 0.5.")
    return sizes


@dataclass(frozen=True)
class Rung:
    """One size of a ladder.

    Args:
        sparsity: What was asked for.
        cost: What the model of that size costs.
        is_full: Whether it keeps every unit, so that what the full model gave is its own.
    """

    sparsity: float
    cost: Cost
    is_full: bool

    def point(self, closeness: Fidelity) -> Point:
        """Return the size's point of a curve, with what is known of every model: its costs and its fidelity."""
        return Point(
            sparsity=self.sparsity,
            achieved_sparsity=self.cost.sparsity,
            parameters=self.cost.parameters,
            macs=self.cost.macs,
            cosine=closeness.cosine,
            worst_cosine=closeness.worst,
        )


@dataclass(frozen=True)
class Ladder:
    """The sizes of one curve.

    Args:
        full: What the full model costs.
        rungs: The sizes, the largest model first.
    """

    full: Cost
    rungs: tuple[Rung, ...]

    @classmethod
    def of(cls, elastic: Sizes, sparsities: Iterable[float]) -> "Ladder":
        """Plan and price every size; no model is built or run, so a budget that can't be met fails at once.

        Args:
            elastic: The elastic model.
            sparsities: The sizes; repeated ones count once.

        Raises:
            InputError: There are no sparsities.
            BudgetError: A sparsity can't be met.
        """
        sizes, full = ascending(sparsities), elastic.plan(sparsity=0.0)
        cuts = [elastic.plan(sparsity=sparsity) for sparsity in sizes]
        rungs = [Rung(size, elastic.cost(cut), cut == full) for size, cut in zip(sizes, cuts, strict=True)]
        return cls(elastic.cost(full), tuple(rungs))

    def curve(
        self, points: Iterable[Point], *, model: str, ranker: str, task: str, full_ndcg: float | None = None
    ) -> Curve:
        """Return the curve that measured points make.

        Args:
            points: A point for each rung.
            model: The model's name.
            ranker: How its units were ranked.
            task: What it was measured on.
            full_ndcg: nDCG@10 of the full model; None without a retrieval task.
        """
        full = self.full
        return Curve(model, ranker, task, full_ndcg, tuple(points), full.tokens, full.parameters, full.macs)
