"""What a ranker starts from, made of a specimen; and what its consumers read, the plain way."""

from typing import Any

import torch
from contracts.specimen import Specimen
from torch import Tensor

from pliant.batches import forward
from pliant.families import describe
from pliant.gates import consumer_hooks
from pliant.objectives import Distillation
from pliant.rankers.calibration import Calibration, Stream, observed, rest_values, unit_costs

KINDS = ("bert", "modernbert", "qwen3", "dinov2", "timm-vit", "beit-relative")
"""Specimens of every kind of layout: packed and gated projections, grouped keys, no biases, layer scales, tables."""


def calibration_of(
    specimen: Specimen, seed: int = 0, rest: Any = "mean", number: int = 6, batches: list[Any] | None = None
) -> Calibration:
    """As `rank` makes it; rest values from the batches that aren't held out."""
    model = specimen.model().requires_grad_(False)
    anatomy = describe(model)
    stream = Stream(specimen.batches(number) if batches is None else batches)
    values = rest_values(model, anatomy, observed(stream, torch.device("cpu")), rest)
    costs = unit_costs(anatomy, torch.device("cpu"))
    return Calibration(model, anatomy, stream, Distillation(anatomy.pooling), values, costs, seed)


@torch.no_grad()
def consumer_inputs(calibration: Calibration) -> list[Tensor]:
    """What each site's consumer reads of the observed batches, double `[tokens, units × width]`.

    Each text goes in alone, so that there is no padding.
    """
    seen: list[list[Tensor]] = [[] for _ in calibration.anatomy.sites]

    def collect(index: int, inputs: Tensor) -> None:
        seen[index].append(inputs.reshape(-1, inputs.shape[-1]).double())

    with consumer_hooks(calibration.model, calibration.anatomy, collect):
        for batch in calibration.observed():
            for single in _singles(batch):
                forward(calibration.model, single)
    return [torch.cat(inputs) for inputs in seen]


def _singles(batch: Any) -> list[Any]:
    if isinstance(batch, Tensor) or "attention_mask" not in batch:
        return [batch]
    masks = batch["attention_mask"].bool()
    return [{name: values[row : row + 1, mask] for name, values in batch.items()} for row, mask in enumerate(masks)]
