"""Gradients of the full model's outputs: with respect to its gates, and to the weights of its units."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from pliant.batches import Batch, forward
from pliant.errors import InputError
from pliant.rankers.calibration import Calibration

_BATCHES = 24

WeightMeasure = Callable[[Tensor, Tensor], Tensor]
"""Called with weights and their gradients, float32 of one shape; returns what to add up, of that shape."""


def gate_gradients(calibration: Calibration, count: int = _BATCHES) -> Iterator[Tensor]:
    """Yield for each of `count` batches the gradient `[units]` of the objective's probe, with all gates at one.

    A gate moves its unit between its activation and its rest value, so the rest values count.

    Raises:
        InputError: The objective has no gradient, or one that is not finite.
    """
    generator = calibration.generator(salt=1)
    with calibration.gated(calibration.rest) as gates:
        for batch in calibration.observed(count):
            masks = torch.ones(calibration.anatomy.units, device=calibration.device, requires_grad=True)
            gates.masks = masks
            probe = _probe(calibration, batch, generator)
            scaled = torch.autograd.grad(probe * calibration.loss_scale, masks)[0]
            yield _finite(scaled.double() / calibration.loss_scale)


def weight_gradients(calibration: Calibration, measure: WeightMeasure, salt: int) -> Iterator[Tensor]:
    """Yield for each observed batch the sums `[units]` of a measure over the weights that leave with each unit.

    These are its rows of the producers' weights and its columns of the consumer's. Each layer's gradient is measured
    and let go before the next layer's is computed, so that the gradients of all weights are never held at once.

    Args:
        calibration: The model and what to rank it with.
        measure: What to add up.
        salt: Of the probe's random generator.

    Raises:
        InputError: The objective has no gradient, or one that is not finite.
    """
    generator = calibration.generator(salt=salt)
    for batch in calibration.observed(_BATCHES):
        sums = torch.zeros_like(calibration.costs)
        with calibration.gated(calibration.rest), _measured(calibration, measure, sums) as weights:
            probe = _probe(calibration, batch, generator)
            torch.autograd.backward(probe * calibration.loss_scale, inputs=weights)
        yield _finite(sums)


@contextmanager
def _measured(calibration: Calibration, measure: WeightMeasure, sums: Tensor) -> Iterator[list[Tensor]]:
    """Yield the units' weights; what a backward pass finds for them is measured and added to `sums`."""
    before: list[tuple[Tensor, bool, Tensor | None]] = []
    handles = []

    def look_at(module: str, units: slice, shape: tuple[int, int, int]) -> None:
        def after(weight: Tensor) -> None:
            assert weight.grad is not None
            found = measure(weight.detach().float(), weight.grad.float() / calibration.loss_scale)
            sums[units] += found.reshape(shape).sum(dim=(0, 2), dtype=torch.float64)
            weight.grad = None

        weight = calibration.model.get_submodule(module).get_parameter("weight")
        before.append((weight, weight.requires_grad, weight.grad))
        weight.grad = None
        weight.requires_grad_(True)
        handles.append(weight.register_post_accumulate_grad_hook(after))

    try:
        for site, units in calibration.anatomy.slices():
            look_at(site.consumer, units, (site.outputs, site.units, site.width))
            for producer in site.producers:
                look_at(producer.module, units, (producer.parts, site.units, producer.rows * producer.inputs))
        yield [weight for weight, _, _ in before]
    finally:
        for handle in handles:
            handle.remove()
        for weight, learning, gradient in before:
            weight.requires_grad_(learning)
            weight.grad = gradient


def _probe(calibration: Calibration, batch: Batch, generator: torch.Generator) -> Tensor:
    probe = calibration.objective.probe(forward(calibration.model, batch), batch, generator)
    if not probe.requires_grad:
        raise InputError(
            f"The objective {calibration.objective.name} gave a loss without gradient. "
            "Compute it from the model's outputs, by differentiable steps and without detach()."
        )
    return probe


def _finite(gradient: Tensor) -> Tensor:
    if not gradient.isfinite().all():
        raise InputError(
            "The model's outputs or their gradients are not finite on the calibration inputs. "
            "Check its weights and the objective, or use float32."
        )
    return gradient
