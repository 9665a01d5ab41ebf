"""Linear probe: how well a linear classifier on top of the embeddings names an input's class."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from torch import Tensor
from torch.nn import functional

from pliant.errors import MissingExtraError
from pliant.evaluation.classes import Classes
from pliant.evaluation.metric import Metric, mean_metric
from pliant.evaluation.reading import Reading
from pliant.evaluation.tasks.task import Size

STEPS = 1000


def check_scikit_learn(feature: str) -> None:
    """Raise `MissingExtraError` where scikit-learn is not installed, before long work rather than after it."""
    try:
        import_module("sklearn")
    except ImportError as error:
        raise MissingExtraError(feature, "eval") from error


def features(embeddings: Tensor) -> Any:
    """Return what the probe looks at: embeddings of length √width, so that their components are about 1."""
    return functional.normalize(embeddings.double(), dim=1).mul(embeddings.shape[1] ** 0.5).numpy()


def fitted(embeddings: Tensor, codes: Tensor) -> Any:
    """Return the probe: scikit-learn's logistic regression with L2 penalty 1 (C = 1), L-BFGS, at most 1,000 steps.

    Args:
        embeddings: Embeddings of the examples, `[examples, width]`.
        codes: Their classes, `[examples]`.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        # The protocol ends after its steps, whether or not the last digits still move.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(C=1.0, max_iter=STEPS).fit(features(embeddings), codes.numpy())


@dataclass(frozen=True, eq=False)
class Probe:
    """Accuracy of a linear probe: one fitted to the size's own embeddings, and the one of the full model, kept.

    Args:
        classes: The class of each input, and which are examples.
        reading: The inputs.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """

    classes: Classes
    reading: Reading

    def __post_init__(self) -> None:
        """Look for scikit-learn."""
        check_scikit_learn("A linear probe")

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The inputs."""
        return (self.reading,)

    def score(self, full: Size, slim: Size) -> Mapping[str, Metric]:
        """Fit on the examples and classify the others."""
        theirs, ours = full(self.reading).embeddings, slim(self.reading).embeddings
        example, codes = self.classes.is_example, self.classes.codes
        wanted, shown = codes[~example].numpy(), features(ours[~example])
        kept = fitted(theirs[example], codes[example])
        own = kept if slim is full else fitted(ours[example], codes[example])
        return {
            name: mean_metric(codes.new_tensor(probe.predict(shown) == wanted))
            for name, probe in (("probe_refitted", own), ("probe_kept", kept))
        }
