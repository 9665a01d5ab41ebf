"""Clustering: do k-means clusters of the embeddings agree with the classes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pliant.evaluation.classes import Classes
from pliant.evaluation.metric import Metric, bootstrapped
from pliant.evaluation.reading import Reading
from pliant.evaluation.tasks.probe import check_scikit_learn, features
from pliant.evaluation.tasks.task import Size

STARTS = 10


def clusters(embeddings: Tensor, count: int) -> Tensor:
    """Return the cluster of each input `[inputs]`, by the best of ten runs of scikit-learn's k-means, seed 0.

    Args:
        embeddings: The embeddings, `[inputs, width]`; only their directions count.
        count: How many clusters.
    """
    from sklearn.cluster import KMeans

    # Type checkers take the types of its arguments from their defaults, of which one is "auto".
    kind: Any = KMeans
    found = kind(n_clusters=min(count, len(embeddings)), n_init=STARTS, random_state=0)
    return torch.from_numpy(found.fit_predict(features(embeddings))).long()


def v_measure(classes: Tensor, found: Tensor) -> Tensor:
    """Return the v-measure of each row: the harmonic mean of homogeneity and completeness.

    Args:
        classes: Class numbers, `[rows, inputs]`.
        found: Cluster numbers, `[rows, inputs]`.

    Source:
        Rosenberg and Hirschberg, "V-measure: a conditional entropy-based external cluster evaluation measure", 2007.
    """
    width = int(found.max()) + 1
    cells = (int(classes.max()) + 1) * width
    pairs = classes * width + found
    counts = torch.stack([torch.bincount(row, minlength=cells) for row in pairs])
    table = counts.reshape(len(pairs), -1, width).double() / pairs.shape[1]
    by_class, by_cluster, joint = (_entropy(part) for part in (table.sum(dim=2), table.sum(dim=1), table.flatten(1)))
    shared, total = by_class + by_cluster - joint, by_class + by_cluster
    # One class in one cluster: nothing is told apart wrongly.
    return torch.where(total > 0, 2 * shared / total.clamp(min=1e-300), 1.0).clamp(0, 1)


def _entropy(shares: Tensor) -> Tensor:
    return -torch.special.xlogy(shares, shares).sum(dim=1)


@dataclass(frozen=True, eq=False)
class Clustering:
    """The v-measure of as many k-means clusters as there are classes, over all inputs.

    Args:
        classes: The class of each input.
        reading: The inputs.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """

    classes: Classes
    reading: Reading

    def __post_init__(self) -> None:
        """Look for scikit-learn."""
        check_scikit_learn("Clustering")

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The inputs."""
        return (self.reading,)

    def score(self, full: Size, slim: Size) -> Mapping[str, Metric]:
        """Cluster once; the interval is over the inputs, with their clusters as they are."""
        codes = self.classes.codes
        found = clusters(slim(self.reading).embeddings, len(self.classes.names))
        # Inputs that are drawn twice share a cluster, which raises the v-measure.
        metric = bootstrapped(lambda drawn: v_measure(codes[drawn], found[drawn]), len(codes), recentred=True)
        return {"v_measure": metric}
