"""Dense outputs: how closely the outputs of all tokens follow the full model's, for who uses them as maps."""

from collections.abc import Mapping
from dataclasses import dataclass

from pliant.errors import InputError
from pliant.evaluation.metric import Metric, mean_metric
from pliant.evaluation.reading import Reading
from pliant.evaluation.tasks.task import Size


@dataclass(frozen=True, eq=False)
class Dense:
    """Mean cosine of each input's token outputs to the full model's.

    The tokens of many inputs would not fit in memory, so they are compared batch by batch while the models run.

    Args:
        reading: The inputs, with `tokens` set.

    Raises:
        InputError: The reading leaves out the tokens.
    """

    reading: Reading

    def __post_init__(self) -> None:
        """Refuse a reading without tokens."""
        if not self.reading.tokens:
            raise InputError("This reading leaves out token outputs. Make it with tokens=True.")

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The inputs."""
        return (self.reading,)

    def score(self, full: Size, slim: Size) -> Mapping[str, Metric]:
        """Compare one size with the full model."""
        cosines = slim(self.reading).token_cosines
        assert cosines is not None
        return {"token_cosine": mean_metric(cosines)}
