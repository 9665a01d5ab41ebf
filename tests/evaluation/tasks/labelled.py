"""Inputs with classes, and sizes of a model without any model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from pliant.evaluation.classes import Classes
from pliant.evaluation.reading import Outputs, Reading
from pliant.evaluation.tasks.task import Size


def reading(inputs: int) -> Reading:
    return Reading(range(inputs), lambda items: [], "mean")


@dataclass(frozen=True, eq=False)
class Sized:
    """A size that is a function of what it reads, and others beside it."""

    outputs: Callable[[Reading], Tensor]
    others: Mapping[float, Size] = field(default_factory=dict)

    def __call__(self, reading: Reading) -> Outputs:
        return Outputs(self.outputs(reading))

    def at(self, sparsity: float) -> Size:
        return self.others[sparsity]


def size(embeddings: Tensor) -> Size:
    return Sized(lambda reading: embeddings)


def clouds(inputs: int, classes: int, width: int, spread: float, seed: int = 0) -> tuple[Tensor, Classes]:
    """Points around one centre a class, every second one an example."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, width, generator=generator)
    codes = torch.arange(inputs) % classes
    points = centres[codes] + spread * torch.randn(inputs, width, generator=generator)
    labels = tuple(f"class {code}" for code in codes.tolist())
    return points, Classes.halved(labels)


def renamed(classes: Classes) -> Classes:
    """The same classes under names of another order."""
    return replace(classes, labels=tuple(label[::-1] for label in classes.labels))
