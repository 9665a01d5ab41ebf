from itertools import combinations

import pytest
import torch
from contracts.calibrations import KINDS, calibration_of, consumer_inputs
from contracts.models import by_name
from torch import Tensor

from pliant.anatomy import Site
from pliant.rankers import obs


def squared_error(site: Site, columns: Tensor, offsets: Tensor, gone: list[int]) -> float:
    """The mean squared change of the consumer's output when the units of a set rest."""
    channels = [unit * site.width + channel for unit in gone for channel in range(site.width)]
    return (offsets[:, channels] @ columns[:, channels].T).square().sum(dim=1).mean().item()


@pytest.mark.parametrize("rest", ["mean", "zero"])
@pytest.mark.parametrize("name", KINDS)
def test_formula(name: str, rest: str) -> None:
    """Heads only, which are few: every removal is tried on the consumer's own inputs."""
    calibration = calibration_of(by_name(name), rest=rest, number=2)
    found = obs.scores(calibration) * calibration.costs
    inputs = consumer_inputs(calibration)
    for index, (site, units) in enumerate(calibration.anatomy.slices()):
        if site.kind == "neurons":
            continue
        offsets = inputs[index] - calibration.rest[index].double()
        columns = calibration.model.get_submodule(site.consumer).get_parameter("weight").double()
        gone: list[int] = []
        highest = before = 0.0
        while len(gone) < site.units:
            left = [unit for unit in range(site.units) if unit not in gone]
            after = {unit: squared_error(site, columns, offsets, [*gone, unit]) for unit in left}
            best = min(after, key=lambda unit: after[unit])
            highest = max(highest, after[best] - before)
            assert found[units][best].item() == pytest.approx(highest, rel=2e-3, abs=1e-6)
            before = after[best]
            gone.append(best)


def test_the_error_of_every_set() -> None:
    calibration = calibration_of(by_name("bert"), number=2)
    site, inputs = calibration.anatomy.sites[0], consumer_inputs(calibration)[0]
    offsets = inputs - calibration.rest[0].double()
    columns = calibration.model.get_submodule(site.consumer).get_parameter("weight").double()
    error = obs._error(site, columns, offsets.T @ offsets / len(offsets))
    for size in range(1, 5):
        for gone in combinations(range(4), size):
            expected = squared_error(site, columns, offsets, list(gone))
            assert error[list(gone)][:, list(gone)].sum().item() == pytest.approx(expected, rel=1e-6)


def test_growth_by_hand() -> None:
    """The third goes first at 1; the second then adds 4 − 2 × 1.5 = 1, the first 9 + 2 × 0.5 + 2 × 1."""
    error = torch.tensor([[9.0, 1.0, 0.5], [1.0, 4.0, -1.5], [0.5, -1.5, 1.0]])
    assert obs._growth(error).tolist() == pytest.approx([12.0, 1.0, 1.0], rel=1e-5)
    cheaper_together = torch.tensor([[4.0, -3.0], [-3.0, 3.0]])
    found = obs._growth(cheaper_together)
    assert found.tolist() == pytest.approx([3.0, 3.0], rel=1e-5)
    assert found[0] > found[1]
