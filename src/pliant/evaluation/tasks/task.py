"""What every task is: inputs that the models read, and metrics of what they gave."""

from collections.abc import Callable, Mapping
from typing import Protocol

from pliant.evaluation.metric import Metric
from pliant.evaluation.reading import Outputs, Reading

Size = Callable[[Reading], Outputs]
"""One size of a model: gives its outputs for a reading."""


class Task(Protocol):
    """Something that embeddings are good for, and how good they are for it."""

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What all sizes have to read; tasks that share a reading share its outputs."""
        ...

    def score(self, full: Size, slim: Size) -> Mapping[str, Metric]:
        """Return the metrics of one size, by name, in the order to be shown; the full model's own are of it twice."""
        ...
