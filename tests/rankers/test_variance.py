import pytest
import torch
from contracts.calibrations import KINDS, calibration_of, consumer_inputs
from contracts.models import by_name

from pliant.rankers import variance


@pytest.mark.parametrize("name", KINDS)
def test_formula(name: str) -> None:
    """The mean over a unit's channels of the mean squared distance to the channel's mean."""
    calibration = calibration_of(by_name(name), number=2)
    expected = []
    for site, inputs in zip(calibration.anatomy.sites, consumer_inputs(calibration), strict=True):
        for unit in range(site.units):
            channels = inputs[:, unit * site.width : (unit + 1) * site.width]
            expected.append(((channels - channels.mean(dim=0)) ** 2).mean())
    torch.testing.assert_close(variance.scores(calibration), torch.stack(expected), rtol=1e-4, atol=1e-8)


def test_finds_the_units_that_hardly_vary() -> None:
    """It looks at activations alone, so they are silenced where they are made."""
    calibration = calibration_of(by_name("bert"))
    quiet = torch.arange(0, 44, 2)
    calibration.model.get_parameter("encoder.layer.1.intermediate.dense.weight")[quiet] *= 0.02
    found = variance.scores(calibration)[calibration.anatomy.offsets[3] :]
    assert set(torch.argsort(found)[: len(quiet)].tolist()) == set(quiet.tolist())


def test_the_kind_of_rest_does_not_count() -> None:
    one, other = (variance.scores(calibration_of(by_name("bert"), rest=rest)) for rest in ("mean", "zero"))
    torch.testing.assert_close(one, other)
