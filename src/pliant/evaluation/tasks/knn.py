"""k nearest neighbours: does a vote of the 20 most similar examples name an input's class."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pliant.evaluation.classes import Classes
from pliant.evaluation.metric import Metric, mean_metric
from pliant.evaluation.reading import Reading
from pliant.evaluation.tasks.task import Size

NEIGHBOURS = 20

# 2²³ float32 similarities are 32 MiB: the most that are there at once.
_SIMILARITIES = 2**23


def nearest_class(examples: Tensor, codes: Tensor, inputs: Tensor, k: int = NEIGHBOURS) -> Tensor:
    """Return the class that most of the `k` examples with the highest cosine have, `[inputs]`.

    Of several classes with as many votes it is the first; of fewer than `k` examples all vote.

    Args:
        examples: Embeddings of the examples, `[examples, width]`.
        codes: The class of each, `[examples]`.
        inputs: Embeddings of the inputs, `[inputs, width]`.
        k: How many examples vote.
    """
    known = functional.normalize(examples.float(), dim=1).T
    classes = int(codes.max()) + 1
    found: list[Tensor] = []
    for rows in functional.normalize(inputs.float(), dim=1).split(max(1, _SIMILARITIES // len(examples))):
        nearest = (rows @ known).topk(min(k, len(examples)), dim=1).indices
        votes = torch.zeros(len(rows), classes).scatter_add_(1, codes[nearest], torch.ones(nearest.shape))
        found.append(votes.argmax(dim=1))
    return torch.cat(found)


@dataclass(frozen=True, eq=False)
class Knn:
    """Accuracy of 20 nearest neighbours by cosine, with slim and with the full model's examples.

    Args:
        classes: The class of each input, and which are examples.
        reading: The inputs.
    """

    classes: Classes
    reading: Reading

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The inputs."""
        return (self.reading,)

    def score(self, full: Size, slim: Size) -> Mapping[str, Metric]:
        """Classify the inputs that are no examples."""
        theirs, ours = full(self.reading).embeddings, slim(self.reading).embeddings
        example, codes = self.classes.is_example, self.classes.codes
        found: dict[str, Metric] = {}
        for name, examples in (("knn_both_slim", ours), ("knn_slim_queries", theirs)):
            named = nearest_class(examples[example], codes[example], ours[~example])
            found[name] = mean_metric(named == codes[~example])
        return found
