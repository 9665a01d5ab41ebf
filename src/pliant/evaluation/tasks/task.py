"""What every task is: inputs that the models read, and metrics of what they gave."""

from collections.abc import Mapping
from typing import Protocol

from pliant.evaluation.metric import Metric
from pliant.evaluation.reading import Outputs, Reading


class Size(Protocol):
    """One size of a model."""

    def __call__(self, reading: Reading) -> Outputs:
        """Return its outputs for a reading."""
        ...

    def at(self, sparsity: float) -> "Size":
        """Return another size of the same model."""
        ...


class Task(Protocol):
    """Something that embeddings are good for, and how good they are for it."""

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What all sizes have to read; tasks that share a reading share its outputs."""
        ...

    def score(self, full: Size, slim: Size) -> Mapping[str, Metric]:
        """Return the metrics of one size, by name, in the order to be shown; the full model's own are of it twice."""
        ...
