"""Semantic textual similarity: do cosines order pairs of texts as people do."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pliant.errors import InputError
from pliant.evaluation.metric import Metric, bootstrapped
from pliant.evaluation.reading import Reading
from pliant.evaluation.similarity import similarities
from pliant.evaluation.tasks.task import Size


def ranks(values: Tensor) -> Tensor:
    """Return each value's rank in its row `[rows, values]`, from 0; equal values share their mean rank."""
    ordered = values.sort(dim=1).values
    below, upto = (torch.searchsorted(ordered, values, right=right) for right in (False, True))
    return (below + upto - 1) / 2


def spearman(one: Tensor, other: Tensor) -> Tensor:
    """Return Spearman's rank correlation of each row `[rows, values]`; NaN where all values of a row are equal.

    Source:
        Spearman, "The proof and measurement of association between two things", 1904.
    """
    centred = [found - found.mean(dim=1, keepdim=True) for found in (ranks(one).double(), ranks(other).double())]
    lengths = centred[0].norm(dim=1) * centred[1].norm(dim=1)
    return (centred[0] * centred[1]).sum(dim=1) / lengths


@dataclass(frozen=True, eq=False)
class Sts:
    """Spearman's correlation of the cosine of two texts with the score that people gave the pair.

    Args:
        scores: One score for each pair, `[pairs]`.
        reading: The first texts of all pairs, and after them the second ones.

    Raises:
        InputError: There are fewer than two different scores, or not two texts for each.
    """

    scores: Tensor
    reading: Reading

    def __post_init__(self) -> None:
        """Refuse what has no order."""
        if len(self.scores.unique()) < 2:
            raise InputError(f"{len(self.scores)} pairs, all of one score, have no order. Give pairs that differ.")
        if len(self.reading.items) != 2 * len(self.scores):
            raise InputError(f"{len(self.reading.items)} texts for {len(self.scores)} pairs. Give two for each.")

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The texts."""
        return (self.reading,)

    def score(self, full: Size, slim: Size) -> Mapping[str, Metric]:
        """Correlate."""
        first, second = slim(self.reading).embeddings.chunk(2)
        cosines, scores = similarities(first, second), self.scores.double()
        # Equal texts get cosines that differ in the last bits.
        cosines = cosines.div(1e-9).round()
        if len(cosines.unique()) < 2:
            return {"sts_spearman": Metric(0.0)}
        return {"sts_spearman": bootstrapped(lambda drawn: spearman(cosines[drawn], scores[drawn]), len(scores))}
