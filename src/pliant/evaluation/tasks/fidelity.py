"""Fidelity: how closely a size's embeddings follow the full model's."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from pliant.evaluation.metric import Metric, bootstrapped, mean_metric
from pliant.evaluation.reading import Reading
from pliant.evaluation.similarity import WORST_SHARE, check_same_inputs, linear_cka, similarities
from pliant.evaluation.tasks.task import Size


@dataclass(frozen=True, eq=False)
class Fidelity:
    """Cosines of each input's two embeddings (their mean and 5th percentile), and linear CKA of all of them.

    Args:
        reading: The inputs.
    """

    reading: Reading

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The inputs."""
        return (self.reading,)

    def score(self, full: Size, slim: Size) -> Mapping[str, Metric]:
        """Compare one size with the full model."""
        expected, found = full(self.reading).embeddings, slim(self.reading).embeddings
        check_same_inputs(expected, found)
        cosines = similarities(expected, found)
        worst = bootstrapped(lambda drawn: torch.quantile(cosines[drawn], WORST_SHARE, dim=1), len(cosines))
        return {"cosine": mean_metric(cosines), "worst_cosine": worst, "cka": linear_cka(expected, found)}
