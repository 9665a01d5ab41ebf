"""From a budget to a cut: pure integers, no model, no device."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pliant.anatomy import Anatomy, Site
from pliant.cost import Cost, cost_of, removed_parameters
from pliant.errors import BudgetError
from pliant.ranking import Ranking
from pliant.times import Times

_LONGEST = 1_000_000
"""Inputs of more tokens than that are refused: their MACs could overflow 64 bits."""

Measure = Literal["sparsity", "params", "macs", "latency_ms", "throughput"]

_REMEMBERED_MEASURES = 8


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


@dataclass(frozen=True)
class Budget:
    """What a user asks for: at most so many parameters, MACs or milliseconds, or at least so much removed or done.

    Args:
        measure: `sparsity` (fraction of the prunable parameters to remove, in [0, 1)), `params` (parameters that the
            whole model may have), `macs` (multiply-accumulates that one input may cost), `latency_ms` (milliseconds
            that one input may take) or `throughput` (inputs that there must be in a second).
        limit: The value, in that measure.
        tokens: Input length that `macs` is stated at; by default the model's native one. For times, it can only be
            that which was measured.

    Raises:
        BudgetError: The limit is no finite number, or outside what its measure allows.
    """

    measure: Measure
    limit: float
    tokens: int | None = None

    def __post_init__(self) -> None:
        """Refuse limits that mean nothing."""
        number = isinstance(self.limit, (int, float, np.integer, np.floating)) and not isinstance(self.limit, bool)
        if not number or not -math.inf < self.limit < math.inf:
            raise BudgetError(f"{self.measure}={self.limit!r} is no finite number. Pass one, such as sparsity=0.5.")
        if self.measure == "sparsity" and not 0 <= self.limit < 1:
            raise BudgetError(f"sparsity={self.limit} is outside [0, 1). 0 keeps everything, 0.5 removes half.")
        if self.measure != "sparsity" and self.limit <= 0:
            raise BudgetError(f"{self.measure}={self.limit} is not positive. Pass what the model may have or must do.")
        if self.tokens is not None and not (_is_whole(self.tokens) and 1 <= self.tokens <= _LONGEST):
            raise BudgetError(
                f"tokens={self.tokens!r} is no positive integer up to {_LONGEST}. Pass the length of an input."
            )

    @property
    def is_timed(self) -> bool:
        """Whether it rests on measured times."""
        return self.measure in ("latency_ms", "throughput")

    @classmethod
    def of(
        cls,
        sparsity: float | None = None,
        params: float | None = None,
        macs: float | None = None,
        tokens: int | None = None,
        latency_ms: float | None = None,
        throughput: float | None = None,
    ) -> "Budget":
        """Make a budget from keyword arguments, of which exactly one beside `tokens` is given.

        Raises:
            BudgetError: None or several are given, or the value is not allowed.
        """
        asked: dict[Measure, float | None] = {"sparsity": sparsity, "params": params, "macs": macs}
        asked |= {"latency_ms": latency_ms, "throughput": throughput}
        given: list[tuple[Measure, float]] = [(measure, limit) for measure, limit in asked.items() if limit is not None]
        if len(given) != 1:
            names = ", ".join(measure for measure, _ in given) or "none"
            allowed = ", ".join(f"{measure}=" for measure in asked)
            raise BudgetError(f"A budget is exactly one of {allowed}; given: {names}.")
        return cls(given[0][0], given[0][1], tokens)


@dataclass(frozen=True)
class Cut:
    """The answer to a budget: how many units each site keeps, in the anatomy's order."""

    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse widths that count nothing."""
        if not isinstance(self.widths, tuple) or not all(map(_is_whole, self.widths)):
            raise BudgetError(f"widths={self.widths!r:.60} is no tuple of integers. Get a cut from Elastic.plan.")

    def is_inside(self, other: "Cut") -> bool:
        """Say whether `other` keeps every unit that this cut keeps."""
        return all(mine <= theirs for mine, theirs in zip(self.widths, other.widths, strict=True))


@dataclass(frozen=True)
class Alignment:
    """The multiples that widths snap to: hardware likes round widths, heads stay whole."""

    neurons: int = 8
    heads: int = 1

    def __post_init__(self) -> None:
        """Refuse multiples below one."""
        for multiple in (self.neurons, self.heads):
            if not _is_whole(multiple) or multiple < 1:
                raise BudgetError(
                    f"Alignment {self.neurons!r} for neurons, {self.heads!r} for heads: both are integers from 1 on."
                )

    def step(self, site: Site) -> int:
        """Return the multiple for `site`: never more than its units."""
        return min(self.neurons if site.kind == "neurons" else self.heads, site.units)

    def snap(self, site: Site, width: int) -> int:
        """Return the largest width that `site` can have and that is at most `width`.

        At least one step, unless a constant can stand in for the whole sublayer.
        """
        step = self.step(site)
        return site.units if width >= site.units else max(self.least(site), width // step * step)

    def least(self, site: Site) -> int:
        """Return the fewest units that `site` can keep."""
        return 0 if site.sublayer else self.step(site)


class Planner:
    """Plans cuts for one ranking: the units in order of score, with the running cost of keeping that many."""

    def __init__(self, anatomy: Anatomy, ranking: Ranking, alignment: Alignment, times: Times | None = None) -> None:
        """Order the units once: descending score, ties by index.

        Args:
            anatomy: The model's anatomy.
            ranking: Its ranking.
            alignment: The multiples that widths snap to.
            times: What its cuts were measured to take; without them, there are no budgets of time.
        """
        self.anatomy = anatomy
        self.times = times
        self.alignment = alignment
        self._maps = ranking.output_maps
        order = np.argsort(-ranking.scores.numpy(), kind="stable")
        sites = np.repeat(np.arange(len(anatomy.sites)), [site.units for site in anatomy.sites])
        self._sites: NDArray[np.int64] = sites[order].astype(np.int64)
        self._growth = self._grown_units()
        self._known: dict[tuple[Measure, int], NDArray[np.int64]] = {}

    def _grown_units(self) -> NDArray[np.int64]:
        """Return by how many units the cut grows when the n-th best unit joins: zero, unless a step is full."""
        growth = np.zeros(len(self._sites), dtype=np.int64)
        for index, site in enumerate(self.anatomy.sites):
            positions = np.flatnonzero(self._sites == index)
            widths = np.array([self.alignment.snap(site, width) for width in range(site.units + 1)])
            growth[positions] = np.diff(widths)
        return growth

    def _running(self, measure: Measure, tokens: int) -> NDArray[np.int64]:
        """Return the running cost, from memory where that measure was asked for before."""
        running = self._known.get((measure, tokens))
        if running is None:
            running = self._running_cost(measure, tokens)
            if len(self._known) >= _REMEMBERED_MEASURES:
                self._known.clear()
            self._known[measure, tokens] = running
        return running

    def _running_cost(self, measure: Measure, tokens: int) -> NDArray[np.int64]:
        units = [site.unit_macs(tokens) if measure == "macs" else site.unit_parameters for site in self.anatomy.sites]
        least = sum(self.alignment.snap(site, 0) * unit for site, unit in zip(self.anatomy.sites, units, strict=True))
        joining = self._growth * np.array(units, dtype=np.int64)[self._sites]
        if measure == "params":
            least += sum(site.other_parameters(self.alignment.snap(site, 0)) for site in self.anatomy.sites)
            joining += self._other_parameters()
        return least + np.concatenate(([0], np.cumsum(joining)))

    def _other_parameters(self) -> NDArray[np.int64]:
        """Return by how many parameters beside the units' own the cut grows when the n-th best unit joins."""
        growth = np.zeros(len(self._sites), dtype=np.int64)
        for index, site in enumerate(self.anatomy.sites):
            widths = [self.alignment.snap(site, width) for width in range(site.units + 1)]
            growth[self._sites == index] = np.diff([site.other_parameters(width) for width in widths])
        return growth

    def plan(self, budget: Budget) -> Cut:
        """Return the largest cut within `budget`; the cuts of all budgets are nested.

        Raises:
            BudgetError: Even the smallest cut is over the budget.
        """
        if budget.is_timed:
            budget = self._untimed(budget)
        tokens = self.anatomy.native_tokens if budget.tokens is None else budget.tokens
        running = self._running(budget.measure, tokens)
        count = int(np.searchsorted(running, self._allowance(budget, tokens), side="right")) - 1
        # An output map may take a cut over the budget; a smaller one, without a map or with its own, is within it.
        for smaller in range(count, -1, -1):
            cut = self._first(smaller)
            if not self._has_map(cut) or self._within(cut, budget):
                return cut
        raise BudgetError(self._unreachable(budget))

    def _untimed(self, budget: Budget) -> Budget:
        """Return the sparsity that meets a budget of time."""
        if self.times is None:
            raise BudgetError(
                f"{budget.measure}={budget.limit} needs measured times, and there are none. Measure them where the "
                "model will run: pliant bench DIRECTORY --store."
            )
        self.times.check_tokens(budget.tokens)
        cuts = [self.plan(Budget("sparsity", sparsity)).widths for sparsity in self.times.sparsities]
        if tuple(cuts) != self.times.widths:
            raise BudgetError(
                f"{budget.measure}={budget.limit}: the times are of other cuts than this ranking, its output maps and "
                "the alignment give. Measure again: pliant bench DIRECTORY --store."
            )
        measure = "latency_ms" if budget.measure == "latency_ms" else "throughput"
        return Budget("sparsity", self.times.sparsity(measure, budget.limit))

    def cost(self, cut: Cut, tokens: int | None = None) -> Cost:
        """Return what a cut costs, with its output map where it has one; its MACs at `tokens` tokens."""
        return cost_of(self.anatomy, cut.widths, tokens, mapped=self._has_map(cut))

    def _has_map(self, cut: Cut) -> bool:
        return self._maps is not None and cut.widths in self._maps

    def _within(self, cut: Cut, budget: Budget) -> bool:
        """Say whether a cut's whole cost is in the budget; a sparsity doesn't count output maps."""
        if budget.measure == "sparsity":
            return True
        cost = self.cost(cut, budget.tokens)
        return (cost.parameters if budget.measure == "params" else cost.macs) <= budget.limit

    def _first(self, count: int) -> Cut:
        kept = np.bincount(self._sites[:count], minlength=len(self.anatomy.sites))
        snap = self.alignment.snap
        return Cut(tuple(snap(site, int(width)) for site, width in zip(self.anatomy.sites, kept, strict=True)))

    def _allowance(self, budget: Budget, tokens: int) -> int:
        """Return what the kept units may cost together."""
        prunable = self.anatomy.prunable_parameters
        if budget.measure == "sparsity":
            return math.floor(prunable * (1 - Fraction(float(budget.limit))))
        if budget.measure == "params":
            return math.floor(budget.limit) - (self.anatomy.total_parameters - prunable)
        nothing = (0,) * len(self.anatomy.sites)
        return math.floor(budget.limit) - self.anatomy.macs(tokens, nothing)

    def _unreachable(self, budget: Budget) -> str:
        least = self._first(0)
        cost, removed = self.cost(least, budget.tokens), removed_parameters(self.anatomy, least.widths)
        floor = {
            "sparsity": f"sparsity {_sparsity_within(removed, self.anatomy.prunable_parameters)}",
            "params": f"{cost.parameters} params",
            "macs": f"{cost.macs} macs at {cost.tokens} tokens",
        }[budget.measure]
        return (
            f"{budget.measure}={budget.limit} can't be met: the smallest cut has {floor}, since a site keeps at least "
            f"one head or {self.alignment.neurons} neurons, unless a constant can stand in for it. "
            "Ask for that or more, or use a smaller model."
        )


def _sparsity_within(removed: int, prunable: int) -> float:
    """Return a sparsity of four digits that is not above the exact share, and so can be had."""
    share = Fraction(removed, prunable)
    digits = math.floor(share * 10_000)
    return (digits if Fraction(digits / 10_000) <= share else digits - 1) / 10_000


def plan(anatomy: Anatomy, ranking: Ranking, budget: Budget, alignment: Alignment | None = None) -> Cut:
    """Return the largest cut within `budget`.

    Args:
        anatomy: The model's anatomy.
        ranking: Its ranking.
        budget: What the cut may cost.
        alignment: The multiples that widths snap to; by default 8 neurons and whole heads.

    Raises:
        BudgetError: Even the smallest cut is over the budget.
    """
    return Planner(anatomy, ranking, alignment or Alignment()).plan(budget)
