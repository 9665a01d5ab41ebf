import pytest
import torch
from contracts.calibrations import KINDS, calibration_of, consumer_inputs
from contracts.models import by_name

from pliant.rankers import flap


@pytest.mark.parametrize("name", KINDS)
def test_formula(name: str) -> None:
    """Var(x_c) · ‖W_c‖² of each channel, standardised over the site's channels, then the mean over a unit's."""
    calibration = calibration_of(by_name(name), number=2)
    expected = []
    for site, inputs in zip(calibration.anatomy.sites, consumer_inputs(calibration), strict=True):
        weight = calibration.model.get_submodule(site.consumer).get_parameter("weight").double()
        channels = torch.stack(
            [inputs[:, channel].var(correction=0) * weight[:, channel].norm() ** 2 for channel in range(len(inputs[0]))]
        )
        scaled = (channels - channels.mean()) / ((channels - channels.mean()) ** 2).mean().sqrt()
        expected += [part.mean() for part in scaled.split(site.width)]
    torch.testing.assert_close(flap.scores(calibration), torch.stack(expected), rtol=1e-3, atol=1e-5)


def test_the_scale_of_a_layer_does_not_count() -> None:
    calibration = calibration_of(by_name("bert"))
    before = flap.scores(calibration)
    # The last MLP: what it adds changes no other consumer's input.
    calibration.model.get_parameter("encoder.layer.1.output.dense.weight").mul_(7)
    torch.testing.assert_close(flap.scores(calibration), before)


def test_units_that_all_fluctuate_alike_have_no_score() -> None:
    calibration = calibration_of(by_name("bert"))
    calibration.model.get_parameter("encoder.layer.1.output.dense.weight").zero_()
    found = flap.scores(calibration)
    assert torch.isfinite(found).all()
    assert not found[calibration.anatomy.offsets[3] :].any()
