"""SnapViT: squared gradients of a unit's own weights, times a factor for each block that an evolution finds."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from pliant.anatomy import Site
from pliant.batches import forward, to_device
from pliant.errors import InputError
from pliant.rankers import xnes
from pliant.rankers.calibration import Calibration
from pliant.rankers.gradients import weight_gradients
from pliant.rankers.soft_topk import hard_topk

EVALUATIONS = 50
"""Evaluations that the search for factors may take, unless it is told another number."""

_SPARSITIES = (0.1, 0.3, 0.5, 0.6)
_SPREAD = 0.5
_KEPT = {"neurons": 0.05, "heads": 0.2}


def scores(calibration: Calibration, evaluations: int = EVALUATIONS) -> Tensor:
    """Return h_u · exp(f) of each unit, with f that of its site and the best units of each site lifted, `[units]`.

    h_u, the local curvature, is the mean over the unit's weights of the squared gradient of the objective's probe,
    summed over batches. The factors, one for the heads and one for the neurons of each block, are found by
    xNES: it minimises the mean over four sparsities of the objective's loss on the held-out inputs, under hard masks.
    The best 5 % of a site's neurons and 20 % of its heads come before all others, so that no block is emptied early.

    The paper prunes neurons and heads in two lists by two ratios. A mean over weights is information per parameter,
    so that one list holds both, and the search, whose masks are cut from that list, sets their balance as well. The
    objective's loss takes the place of the cosine of embeddings in their principal components: sizes are judged by
    it. All weights that leave with a unit count, where the authors' code looks at rows of the first projection or the
    values alone: so a sentence encoder kept a cosine of 0.75 before any search, where it fell apart by those rows.
    Factors are searched by their logarithms, so that none is negative, and begin at one.

    Args:
        calibration: The model and what to rank it with.
        evaluations: How many sets of factors are tried, each with the held-out inputs at four sparsities; 0 leaves
            all factors at one.

    Raises:
        InputError: The objective has no gradient, or gradients or losses are not finite.

    Source:
        Simoncini, Dorkenwald, Blankevoort, Snoek and Asano, "Elastic ViTs from Pretrained Models without Retraining",
        NeurIPS 2025.
    """
    local = torch.zeros_like(calibration.costs)
    for squares in weight_gradients(calibration, lambda weight, gradient: gradient.square(), salt=3):
        local += squares
    for site, units in calibration.anatomy.slices():
        local[units] /= _weights(site)
    start = torch.zeros(len(calibration.anatomy.sites), dtype=torch.float64)
    if evaluations == 0:
        return _scaled(calibration, local, start)
    loss = _judge(calibration, local)
    generator = calibration.generator(salt=4)
    return _scaled(calibration, local, xnes.minimise(loss, start, evaluations, generator, _SPREAD))


def _weights(site: Site) -> int:
    rows = sum(producer.parts * producer.rows * producer.inputs for producer in site.producers)
    return rows + site.width * site.outputs


def _scaled(calibration: Calibration, local: Tensor, factors: Tensor) -> Tensor:
    """Return local scores times their sites' factors, the best of each site above all that aren't."""
    found = local.clone()
    protected = torch.zeros_like(found, dtype=torch.bool)
    for (site, units), factor in zip(calibration.anatomy.slices(), factors.tolist(), strict=True):
        found[units] *= math.exp(factor)
        best = torch.argsort(local[units], descending=True, stable=True)[: int(_KEPT[site.kind] * site.units)]
        protected[units.start + best] = True
    positive = found[protected & (found > 0)]
    if len(positive):
        # By a factor, as a sum would round small scores away.
        found[protected] *= 2 * found.max() / positive.min()
    return found


def _judge(calibration: Calibration, local: Tensor) -> Callable[[Tensor], float]:
    """Return the loss of factors: the mean over sparsities and held-out inputs, reported to whoever watches."""
    batches = [to_device(batch, calibration.device) for batch in calibration.stream.held_out]
    objective, model, done = calibration.objective, calibration.model, 0
    with torch.no_grad():
        targets = [objective.target(forward(model, batch), batch) for batch in batches]

    @torch.no_grad()
    def loss(factors: Tensor) -> float:
        nonlocal done
        total, found = 0.0, _scaled(calibration, local, factors)
        with calibration.gated(calibration.rest) as gates:
            for sparsity in _SPARSITIES:
                gates.masks = hard_topk(found, calibration.costs, sparsity).float()
                for batch, target in zip(batches, targets, strict=True):
                    total += objective.loss(forward(model, batch), target, batch).item()
        mean, done = total / (len(batches) * len(_SPARSITIES)), done + 1
        if not math.isfinite(mean):
            raise InputError(f"The loss of evaluation {done} is {mean}. Check the objective, or use float32.")
        if calibration.watch is not None:
            calibration.watch(done, mean)
        return mean

    return loss
