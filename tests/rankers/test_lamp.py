import pytest
import torch
from contracts.calibrations import KINDS, calibration_of
from contracts.models import by_name
from hypothesis import given
from hypothesis import strategies as st

from pliant.rankers import lamp, magnitude


@pytest.mark.parametrize("name", KINDS)
def test_formula(name: str) -> None:
    """s_u = m_u² / Σ of m_v² over the units of the site with m_v ≥ m_u."""
    calibration = calibration_of(by_name(name), number=2)
    sizes = magnitude.scores(calibration) * calibration.costs
    expected = torch.empty_like(sizes)
    for _, units in calibration.anatomy.slices():
        for unit in range(units.start, units.stop):
            larger = [size.item() ** 2 for size in sizes[units] if size >= sizes[unit]]
            expected[unit] = sizes[unit] ** 2 / sum(larger)
    torch.testing.assert_close(lamp.scores(calibration), expected)


def test_by_hand() -> None:
    found = lamp.shares(torch.tensor([1.0, 4.0, 3.0]))
    torch.testing.assert_close(found, torch.tensor([1 / 8, 1.0, 3 / 7]))


@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-200, 1e6)), min_size=1, max_size=30))
def test_shares_keep_the_order_and_the_last_one_has_all(values: list[float]) -> None:
    given_values = torch.tensor(values, dtype=torch.float64)
    shares = lamp.shares(given_values)
    order = sorted(range(len(values)), key=lambda index: (values[index], -index))
    assert (shares[order].diff() >= 0).all()
    assert shares.max() == (1 if max(values) > 0 else 0)


def test_the_scale_of_a_layer_does_not_count() -> None:
    calibration = calibration_of(by_name("bert"))
    before = lamp.scores(calibration)
    calibration.model.get_parameter("encoder.layer.0.output.dense.weight").mul_(7)
    torch.testing.assert_close(lamp.scores(calibration), before)
    assert not torch.allclose(magnitude.scores(calibration), before)
