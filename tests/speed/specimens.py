"""Models that note when they run, a measurement in round numbers, and a tiny elastic model with its original."""

from typing import NamedTuple

import torch
from contracts.elastics import fresh_elastic
from contracts.models import by_name
from torch import Tensor, nn

from pliant.batches import Batch
from pliant.elastic import Elastic
from pliant.speed import Size, Speed, Switching, Timing


class Noting(nn.Module):
    """Notes its name in a list each time that it runs."""

    def __init__(self, name: str, notes: list[str]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.name, self.notes = name, notes

    def forward(self, values: Tensor) -> Tensor:
        assert torch.is_inference_mode_enabled()
        self.notes.append(self.name)
        return values + self.weight


class Pair(NamedTuple):
    original: nn.Module
    elastic: Elastic


def pair(name: str = "bert") -> Pair:
    """Return a tiny model, and the elastic one made of its twin."""
    specimen = by_name(name)
    return Pair(specimen.model(), fresh_elastic(specimen))


def batch(count: int, name: str = "bert") -> Batch:
    """Return that many inputs for it."""
    one = by_name(name).batch()
    return {key: value[:1].expand(count, *value.shape[1:]).contiguous() for key, value in one.items()}


def measured(cuts: bool = True, **changes: object) -> Speed:
    """Return a measurement: views twice as fast as their sparsity says, cuts a little faster."""
    original = _size("original", 0.0, 1.0)
    views = [_size("view", sparsity, 1 - sparsity) for sparsity in (0.0, 0.25, 0.5)]
    others = [_size("cut", sparsity, 0.9 * (1 - sparsity)) for sparsity in (0.0, 0.25, 0.5)] if cuts else []
    fields: dict[str, object] = {
        "model": "all-MiniLM-L6-v2",
        "ranker": "soft-mask",
        "device": "cpu",
        "device_name": "A Processor",
        "threads": 2,
        "precision": "float32",
        "torch": "2.13.0",
        "tokens": 128,
        "image_size": None,
        "sizes": (original, *views, *others),
        "switching": Switching(300, 0.8, 1.6, 0.002, 0.004),
    }
    return Speed(**{**fields, **changes})  # pyright: ignore[reportArgumentType] - of fields of every type


def _size(form: str, sparsity: float, share: float) -> Size:
    timings = tuple(Timing(count, 100, 10.0 * count * share, 12.0 * count * share, 1000 * count) for count in (1, 8))
    parameters, macs = round(22_000_000 * (1 - sparsity / 2)), round(5_000_000_000 * (1 - 0.8 * sparsity))
    return Size(form, sparsity, sparsity * 1.001, parameters, macs, timings)  # pyright: ignore[reportArgumentType]
