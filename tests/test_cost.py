from dataclasses import replace
from itertools import pairwise

import pytest
from contracts.anatomies import anatomies, anatomy_of, heads, neurons
from hypothesis import given
from hypothesis import strategies as st

from pliant.anatomy import Anatomy, Output, Unit
from pliant.cost import cost_of, removed_parameters


def test_a_neuron_by_hand() -> None:
    # One row of 6 with its bias, one column of 5.
    assert neurons(0, 3, inputs=6, outputs=5).unit_parameters == 6 + 1 + 5
    assert neurons(0, 3, inputs=6, outputs=5, bias=False).unit_parameters == 6 + 5
    assert neurons(0, 3, inputs=6, outputs=5, producers=2).unit_parameters == 2 * 7 + 5
    assert neurons(0, 3, inputs=6, outputs=5).unit_macs(tokens=10) == 10 * (6 + 5)


def test_a_head_by_hand() -> None:
    # Three times 4 rows of 6, each with a bias, and 4 columns of 5.
    assert heads(0, 2, width=4, inputs=6, outputs=5).unit_parameters == 3 * 4 * 7 + 4 * 5
    # Queries times keys, and weights times values: 10 × 10 × 4 each.
    assert heads(0, 2, width=4, inputs=6, outputs=5).unit_macs(tokens=10) == 10 * (3 * 4 * 6 + 4 * 5) + 2 * 10 * 10 * 4


def test_a_model_by_hand() -> None:
    anatomy = anatomy_of([heads(0, 2), neurons(0, 8)], others=50, per_token=3, fixed=7, native=16)
    assert anatomy.prunable_parameters == 2 * 108 + 8 * 13
    cost = cost_of(anatomy, (1, 6), tokens=5)
    assert cost.parameters == 50 + 108 + 6 * 13
    assert cost.sparsity == (108 + 2 * 13) / (2 * 108 + 8 * 13)
    assert cost.macs == 5 * (4 * 6 * 3 + 4 * 6 + 2 * 5 * 4) + 6 * 5 * 12 + 3 * 5 + 7
    assert cost.tokens == 5
    assert cost_of(anatomy, (1, 6)).tokens == 16


def test_an_output_map_by_hand() -> None:
    anatomy = replace(anatomy_of([neurons(0, 8)], others=50, native=16), output=Output("norm", 5))
    plain, mapped = (cost_of(anatomy, (6,), tokens=3, mapped=follows) for follows in (False, True))
    # A matrix of 5 × 5 and a bias for each of 3 tokens.
    assert mapped.parameters - plain.parameters == 5 * 5 + 5
    assert mapped.macs - plain.macs == 3 * 5 * 5
    assert mapped.sparsity == plain.sparsity


@given(anatomies(), st.data())
def test_costs_add_up(anatomy: Anatomy, data: st.DataObject) -> None:
    widths = tuple(data.draw(st.integers(0, site.units)) for site in anatomy.sites)
    cost = cost_of(anatomy, widths)
    others = sum(site.other_parameters(width) for site, width in zip(anatomy.sites, widths, strict=True))
    assert cost.parameters + removed_parameters(anatomy, widths) == anatomy.total_parameters + others
    assert 0 <= cost.sparsity <= 1
    assert cost.macs <= anatomy.macs()
    assert cost_of(anatomy, tuple(site.units for site in anatomy.sites)).macs == anatomy.macs()


@given(anatomies())
def test_units_and_positions(anatomy: Anatomy) -> None:
    flat = [Unit(site, index) for site, found in enumerate(anatomy.sites) for index in range(found.units)]
    assert [anatomy.unit(position) for position in range(anatomy.units)] == flat
    assert anatomy.units == len(flat)
    ends = [(units.start, units.stop) for _, units in anatomy.slices()]
    assert ends[0][0] == 0
    assert ends[-1][1] == anatomy.units
    assert all(one[1] == other[0] for one, other in pairwise(ends))
    for position in (-1, anatomy.units):
        with pytest.raises(IndexError, match=f"unit {position} of {anatomy.units}"):
            anatomy.unit(position)


@pytest.mark.parametrize("widths", [(1,), (1, 2, 3)])
def test_widths_for_another_anatomy(widths: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="zip"):
        cost_of(anatomy_of([heads(0, 2), neurons(0, 8)]), widths)
