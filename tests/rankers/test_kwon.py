from itertools import pairwise

import pytest
import torch
from contracts.calibrations import KINDS, calibration_of
from contracts.models import by_name
from torch import Tensor

from pliant.rankers import kwon
from pliant.rankers.calibration import Calibration
from pliant.rankers.gradients import gate_gradients
from pliant.rankers.soft_topk import hard_topk


def information(calibration: Calibration) -> Tensor:
    gradients = torch.stack(list(gate_gradients(calibration, 96)))
    return torch.einsum("nu,nv->uv", gradients, gradients)


@pytest.mark.parametrize("name", KINDS)
def test_each_site_leaves_in_the_order_of_its_block(name: str) -> None:
    """Worked out set by set: the n-th to leave adds least to the information of those that are gone."""
    calibration = calibration_of(by_name(name))
    full = information(calibration)
    full = (full + torch.diag(full.diagonal())) / 2
    found = kwon.scores(calibration)
    for _, units in calibration.anatomy.slices():
        order = (torch.argsort(found[units]) + units.start).tolist()
        for step in range(min(6, len(order))):
            losses = [full[[*order[:step], unit]][:, [*order[:step], unit]].sum() for unit in order[step:]]
            assert losses[0] <= 1.0001 * min(losses)


@pytest.mark.parametrize("name", KINDS)
def test_widths_are_those_of_the_mask_search(name: str) -> None:
    calibration = calibration_of(by_name(name))
    alone = information(calibration).diagonal() / calibration.costs
    found = kwon.scores(calibration)
    for sparsity in (0.2, 0.5, 0.8):
        masks = [hard_topk(scores.float(), calibration.costs, sparsity) for scores in (alone, found)]
        for _, units in calibration.anatomy.slices():
            assert masks[0][units].sum() == masks[1][units].sum()
    torch.testing.assert_close(found.sort().values, alone.sort().values, rtol=1e-5, atol=0)


def test_the_masks_of_all_budgets_are_nested() -> None:
    calibration = calibration_of(by_name("bert"))
    found = kwon.scores(calibration)
    masks = [hard_topk(found, calibration.costs, step / 20) for step in range(20)]
    assert all((smaller <= larger).all() for larger, smaller in pairwise(masks))


def test_half_of_the_information_between_two_units_counts() -> None:
    gradients = torch.tensor([[2.0, -2.0, 1.8], [0.0, 0.1, 0.0]])
    block = kwon._block(gradients)
    torch.testing.assert_close(block, torch.tensor([[4.0, -2.0, 1.8], [-2.0, 4.01, -1.8], [1.8, -1.8, 3.24]]))
