"""Gradients of the full model's outputs with respect to its gates: what Fisher and Taylor look at."""

from collections.abc import Iterator

import torch
from torch import Tensor

from pliant.batches import forward
from pliant.errors import InputError
from pliant.rankers.calibration import Calibration


def gate_gradients(calibration: Calibration) -> Iterator[Tensor]:
    """Yield for each observed batch the gradient `[units]` of the objective's probe, with all gates at one.

    A gate moves its unit between its activation and its rest value, so the rest values count.

    Raises:
        InputError: The objective has no gradient, or one that is not finite.
    """
    generator = calibration.generator(salt=1)
    with calibration.gated(calibration.rest) as gates:
        for batch in calibration.observed():
            masks = torch.ones(calibration.anatomy.units, device=calibration.device, requires_grad=True)
            gates.masks = masks
            probe = calibration.objective.probe(forward(calibration.model, batch), batch, generator)
            if not probe.requires_grad:
                raise InputError(
                    f"The objective {calibration.objective.name} gave a loss without gradient. "
                    "Compute it from the model's outputs, by differentiable steps and without detach()."
                )
            scaled = torch.autograd.grad(probe * calibration.loss_scale, masks)[0]
            gradient = scaled.double() / calibration.loss_scale
            if not gradient.isfinite().all():
                raise InputError(
                    "The model's outputs or their gradients are not finite on the calibration inputs. "
                    "Check its weights and the objective, or use float32."
                )
            yield gradient
