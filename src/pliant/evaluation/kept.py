"""What each size keeps of every layer."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from pliant.anatomy import Anatomy, Kind, Site
from pliant.budget import Cut
from pliant.errors import InputError


class Planner(Protocol):
    """The part of `Elastic` that says what a size keeps."""

    @property
    def anatomy(self) -> Anatomy:
        """All sites of the model."""
        ...

    def plan(self, *, sparsity: float) -> Cut:
        """Return the cut of that size."""
        ...


@dataclass(frozen=True)
class Kept:
    """The units that each size keeps at each site.

    Args:
        sparsities: The sizes, ascending.
        sites: The model's sites, in anatomy order.
        widths: For each size, the units that each site keeps.
    """

    sparsities: tuple[float, ...]
    sites: tuple[Site, ...]
    widths: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, elastic: Planner, sparsities: Iterable[float]) -> "Kept":
        """Plan each of `sparsities`; no model is built or run.

        Raises:
            InputError: There are no sparsities.
            BudgetError: A sparsity can't be met.
        """
        sizes = tuple(sorted(set(sparsities)))
        if not sizes:
            raise InputError("No sparsities: what is kept needs at least one size, such as 0.5.")
        return cls(sizes, elastic.anatomy.sites, tuple(elastic.plan(sparsity=size).widths for size in sizes))

    def rows(self, kind: Kind) -> list[tuple[Site, tuple[int, ...]]]:
        """Return each site of that kind with the units that it keeps at each size."""
        return [
            (site, tuple(widths[i] for widths in self.widths)) for i, site in enumerate(self.sites) if site.kind == kind
        ]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of units that the model has, neurons first."""
        present = {site.kind for site in self.sites}
        ordered: tuple[Kind, ...] = ("neurons", "heads")
        return tuple(kind for kind in ordered if kind in present)
