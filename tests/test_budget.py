import math
from fractions import Fraction
from typing import Any

import numpy
import pytest
from contracts.anatomies import anatomies, anatomy_of, heads, neurons, ranked_anatomies, ranking_of
from hypothesis import given
from hypothesis import strategies as st

from pliant.anatomy import Anatomy
from pliant.budget import Alignment, Budget, Cut, Planner, plan
from pliant.cost import cost_of, removed_parameters
from pliant.errors import BudgetError
from pliant.ranking import Ranking

alignments = st.builds(Alignment, neurons=st.sampled_from([1, 2, 7, 8, 64]), heads=st.sampled_from([1, 2, 3]))
sparsities = st.floats(0, 1, exclude_max=True)
shares = st.floats(0.001, 1.5)
measures = st.sampled_from(["sparsity", "params", "macs"])

Case = tuple[Anatomy, Ranking]


def budget_of(anatomy: Anatomy, measure: Any, share: float, tokens: int | None) -> Budget:
    """A budget in any measure from a share of the full model."""
    if measure == "sparsity":
        return Budget("sparsity", max(0.0, 1 - share))
    full = anatomy.total_parameters if measure == "params" else anatomy.macs(tokens)
    return Budget(measure, max(0.5, share * full), tokens)


def within(anatomy: Anatomy, widths: tuple[int, ...], budget: Budget) -> bool:
    """Exactly, without rounding."""
    limit = Fraction(budget.limit)
    if budget.measure == "sparsity":
        return removed_parameters(anatomy, widths) >= limit * anatomy.prunable_parameters
    cost = cost_of(anatomy, widths, budget.tokens)
    return (cost.parameters if budget.measure == "params" else cost.macs) <= limit


def planned(case: Case, budget: Budget, alignment: Alignment) -> Cut | None:
    try:
        return plan(*case, budget, alignment)
    except BudgetError:
        return None


def smallest(anatomy: Anatomy, alignment: Alignment) -> tuple[int, ...]:
    return tuple(0 if site.sublayer else alignment.step(site) for site in anatomy.sites)


@given(ranked_anatomies(), measures, shares, st.none() | st.integers(1, 99), alignments)
def test_never_over_budget(case: Case, measure: str, share: float, tokens: int | None, alignment: Alignment) -> None:
    anatomy, _ = case
    budget = budget_of(anatomy, measure, share, tokens)
    cut = planned(case, budget, alignment)
    assert (cut is not None) == within(anatomy, smallest(anatomy, alignment), budget)
    assert cut is None or within(anatomy, cut.widths, budget)


@given(ranked_anatomies(), measures, shares, alignments)
def test_widths_are_aligned_or_full(case: Case, measure: str, share: float, alignment: Alignment) -> None:
    anatomy, _ = case
    cut = planned(case, budget_of(anatomy, measure, share, None), alignment)
    for site, width in zip(anatomy.sites, () if cut is None else cut.widths, strict=cut is not None):
        step = alignment.neurons if site.kind == "neurons" else alignment.heads
        least = 0 if site.sublayer else 1
        assert width == site.units or (width % step == 0 and least <= width < site.units)


@given(ranked_anatomies(), measures, measures, shares, shares, alignments)
def test_any_two_cuts_are_nested(
    case: Case, one: str, other: str, much: float, little: float, alignment: Alignment
) -> None:
    anatomy, _ = case
    cuts = [planned(case, budget_of(anatomy, *asked, None), alignment) for asked in ((one, much), (other, little))]
    if cuts[0] and cuts[1]:
        assert cuts[0].is_inside(cuts[1]) or cuts[1].is_inside(cuts[0])


@given(ranked_anatomies(), measures, shares, shares, alignments)
def test_more_budget_never_keeps_less(case: Case, measure: str, one: float, other: float, alignment: Alignment) -> None:
    anatomy, _ = case
    little, much = (planned(case, budget_of(anatomy, measure, s, None), alignment) for s in sorted((one, other)))
    assert little is None or (much is not None and little.is_inside(much))


@given(ranked_anatomies(), sparsities, alignments)
def test_the_next_step_in_order_would_be_over_budget(case: Case, sparsity: float, alignment: Alignment) -> None:
    """Rebuilt without the planner's tables: add units one by one, best first, and snap."""
    anatomy, ranking = case
    budget = Budget("sparsity", sparsity)
    cut = planned(case, budget, alignment)
    if cut is None:
        return
    scores = ranking.scores.tolist()
    order = sorted(range(anatomy.units), key=lambda position: (-scores[position], position))
    counts = [0] * len(anatomy.sites)
    fitting = smallest(anatomy, alignment)
    for position in order:
        counts[anatomy.unit(position).site] += 1
        widths = tuple(alignment.snap(site, count) for site, count in zip(anatomy.sites, counts, strict=True))
        if not within(anatomy, widths, budget):
            break
        fitting = widths
    assert cut.widths == fitting


@given(ranked_anatomies(), sparsities, alignments)
def test_the_same_every_time(case: Case, sparsity: float, alignment: Alignment) -> None:
    budget = Budget("sparsity", sparsity)
    planner = Planner(*case, alignment)
    found = planned(case, budget, alignment)
    if found is not None:
        planner.plan(Budget("sparsity", 0))
        assert planner.plan(budget) == found == planner.plan(budget)


@given(ranked_anatomies())
def test_nothing_to_remove_keeps_all(case: Case) -> None:
    anatomy, _ = case
    everything = tuple(site.units for site in anatomy.sites)
    for budget in (Budget("sparsity", 0), Budget("params", anatomy.total_parameters), Budget("macs", anatomy.macs())):
        assert plan(*case, budget).widths == everything


@given(anatomies())
def test_exact_counts_at_the_edge(anatomy: Anatomy) -> None:
    """One parameter less than the full model, and a unit must go; the exact number, and none does."""
    ranking = ranking_of(anatomy, [float(unit) for unit in range(anatomy.units)])
    widths = tuple(site.units for site in anatomy.sites)
    parameters = cost_of(anatomy, widths).parameters
    assert plan(anatomy, ranking, Budget("params", parameters), Alignment(1)).widths == widths
    fewer = planned((anatomy, ranking), Budget("params", parameters - 1), Alignment(1)) if parameters > 1 else None
    assert fewer is None or fewer.widths != widths


def test_ties_break_by_index() -> None:
    anatomy = anatomy_of([neurons(0, 10), neurons(1, 10)])
    ranking = ranking_of(anatomy, [1.0] * 20)
    assert plan(anatomy, ranking, Budget("sparsity", 0.25), Alignment(1)).widths == (10, 5)


def test_units_of_different_cost_share_one_scale() -> None:
    """6 neurons of 13 parameters and 2 heads of 108; the best 3 neurons and 1 head fit into half."""
    anatomy = anatomy_of([heads(0, 2), neurons(1, 6)])
    assert [site.unit_parameters for site in anatomy.sites] == [108, 13]
    ranking = ranking_of(anatomy, [9.0, 1.0, 8.0, 7.0, 6.0, 0.5, 0.4, 0.3])
    assert plan(anatomy, ranking, Budget("sparsity", 0.5), Alignment(1)).widths == (1, 3)
    # After head 1 is turned down, cheaper and worse units don't get in: that would break nesting.


def test_a_site_never_loses_its_last_step() -> None:
    anatomy = anatomy_of([heads(0, 3), neurons(1, 40)])
    ranking = ranking_of(anatomy, [-5.0] * 3 + [1.0] * 40)
    assert plan(anatomy, ranking, Budget("sparsity", 0.4)).widths[0] == 1


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, -0.1, 1.0, 1.5, True, False, "0.5", None, [0.5], 1j, numpy.complex64(1)]
)
def test_sparsities_that_mean_nothing(value: Any) -> None:
    with pytest.raises(BudgetError, match="sparsity="):
        Budget("sparsity", value)


@pytest.mark.parametrize("measure", ["params", "macs"])
@pytest.mark.parametrize("value", [math.nan, math.inf, 0, -3, True, "1000", numpy.bool_(True)])
def test_counts_that_mean_nothing(measure: Any, value: Any) -> None:
    with pytest.raises(BudgetError, match=f"{measure}="):
        Budget(measure, value)


@pytest.mark.parametrize("tokens", [0, -1, True, 2.5, math.nan, "9", 10**10])
def test_lengths_that_mean_nothing(tokens: Any) -> None:
    with pytest.raises(BudgetError, match="tokens="):
        Budget("macs", 1000, tokens)


@pytest.mark.parametrize("value", [0.5, numpy.float32(0.5), numpy.float64(0.5), 0, numpy.int64(0)])
def test_numbers_of_several_libraries(value: Any) -> None:
    anatomy = anatomy_of([neurons(0, 10)])
    ranking = ranking_of(anatomy, [float(unit) for unit in range(10)])
    assert plan(anatomy, ranking, Budget("sparsity", value), Alignment(1)).widths == (5 if value else 10,)


@pytest.mark.parametrize("limit", [1e300, 10**30, 10**400])
@pytest.mark.parametrize("measure", ["params", "macs"])
def test_more_than_enough(measure: Any, limit: float) -> None:
    anatomy = anatomy_of([heads(0, 3), neurons(1, 40)])
    assert plan(anatomy, ranking_of(anatomy, [0.0] * 43), Budget(measure, limit)).widths == (3, 40)


@pytest.mark.parametrize(
    ("asked", "given_names"),
    [({}, "none"), ({"sparsity": 0.5, "params": 10}, "sparsity, params"), ({"params": 1, "macs": 1}, "params, macs")],
)
def test_exactly_one_measure(asked: dict[str, Any], given_names: str) -> None:
    with pytest.raises(BudgetError, match=f"exactly one.*given: {given_names}"):
        Budget.of(**asked)


def test_a_budget_by_keyword() -> None:
    assert Budget.of(sparsity=0.5) == Budget("sparsity", 0.5)
    assert Budget.of(macs=100, tokens=7) == Budget("macs", 100, 7)


@given(ranked_anatomies(), measures, alignments)
def test_what_cannot_be_met_says_how_far_one_can_go(case: Case, measure: str, alignment: Alignment) -> None:
    anatomy, _ = case
    least = smallest(anatomy, alignment)
    impossible = Budget("sparsity", 1 - 2**-53) if measure == "sparsity" else Budget(measure, 1)  # pyright: ignore[reportArgumentType]
    if within(anatomy, least, impossible):
        return
    with pytest.raises(BudgetError, match="can't be met: the smallest cut has") as raised:
        plan(*case, impossible, alignment)
    found = str(raised.value).partition("smallest cut has ")[2]
    stated = float(found.removeprefix("sparsity ").split(",")[0].split(" ")[0])
    cost = cost_of(anatomy, least)
    actual = {"sparsity": cost.sparsity, "params": cost.parameters, "macs": cost.macs}[measure]
    assert stated == pytest.approx(actual, abs=1.01e-4)
    # What the message offers can be had.
    assert plan(*case, Budget(measure, stated), alignment).widths == least  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("neuron_step", "head_step"), [(0, 1), (8, 0), (-8, 1)])
def test_alignments_below_one(neuron_step: int, head_step: int) -> None:
    with pytest.raises(BudgetError, match=f"Alignment {neuron_step}"):
        Alignment(neuron_step, head_step)


def test_alignments_beyond_a_site_keep_it_whole() -> None:
    site = neurons(0, 5)
    assert Alignment(8).step(site) == 5
    assert [Alignment(8).snap(site, width) for width in range(6)] == [5] * 6


def test_inside() -> None:
    assert Cut((1, 2)).is_inside(Cut((1, 3)))
    assert not Cut((2, 2)).is_inside(Cut((1, 3)))
    with pytest.raises(ValueError, match="zip"):
        Cut((1,)).is_inside(Cut((1, 3)))


@pytest.mark.parametrize("measure", ["params", "macs"])
def test_budgets_beyond_any_model(measure: Any) -> None:
    anatomy = anatomy_of([neurons(0, 10)])
    ranking = ranking_of(anatomy, [float(unit) for unit in range(10)])
    for limit in (1e300, 10**400):
        assert plan(anatomy, ranking, Budget(measure, limit, 1_000_000)).widths == (10,)


@pytest.mark.parametrize("multiple", [0, -8, 8.5, "8", True, None])
def test_alignments_that_are_no_multiple(multiple: Any) -> None:
    with pytest.raises(BudgetError, match="integers from 1 on"):
        Alignment(neurons=multiple)


@pytest.mark.parametrize("widths", [[1, 2], (1.5, 2), ("a",), None])
def test_widths_that_count_nothing(widths: Any) -> None:
    with pytest.raises(BudgetError, match="no tuple of integers"):
        Cut(widths)
