"""Classification head: how often the model's own classifier is right, at each size."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from pliant.errors import InputError
from pliant.evaluation.metric import Metric, mean_metric
from pliant.evaluation.reading import LOGITS, Reading
from pliant.evaluation.tasks.task import Size


@dataclass(frozen=True, eq=False)
class Head:
    """Top-1 accuracy of a model with a classification head, and how often it says what the full model says.

    Args:
        classes: The number of each input's class among the model's outputs, `[inputs]`.
        reading: The inputs, with the pooling `logits`.

    Raises:
        InputError: The reading takes something else than logits, or has another number of inputs.
    """

    classes: Tensor
    reading: Reading

    def __post_init__(self) -> None:
        """Refuse a reading of another kind."""
        if self.reading.pooling != LOGITS or len(self.reading.items) != len(self.classes):
            raise InputError(
                f"{len(self.classes)} classes for {len(self.reading.items)} inputs, of which the "
                f"{self.reading.pooling} is read. Give a class for each input, and read the {LOGITS}."
            )

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The inputs."""
        return (self.reading,)

    def score(self, full: Size, slim: Size) -> Mapping[str, Metric]:
        """Take the class with the highest logit."""
        said = [size(self.reading).embeddings for size in (full, slim)]
        if int(self.classes.max()) >= said[0].shape[1]:
            raise InputError(f"Class {int(self.classes.max())} of a model with {said[0].shape[1]}. Correct the labels.")
        theirs, ours = (logits.argmax(dim=1) for logits in said)
        return {"head_top1": mean_metric(ours == self.classes), "head_agreement": mean_metric(ours == theirs)}
