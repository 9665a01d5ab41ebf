"""How the method goes: the settings of the search through soft masks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pliant.errors import InputError
from pliant.size_norms import KNOTS


@dataclass(frozen=True)
class SoftMask:
    """How the search goes.

    Args:
        steps: Steps of Adam in which scores are learned.
        settle: Steps after these in which the scores stay as the best ones found, units are removed rather than dimmed,
            and what compensates for them is learned further: rest values, and with them the norms at each size.
        sparsities: Sparsities in one step, one from each stratum of [0, `highest`].
        highest: The highest sparsity that is trained.
        rate: Adam's step size for scores at the start, in standard deviations of the first scores; it falls to a
            tenth along a cosine.
        rest_rate: Adam's step size for rest values, in standard deviations of a site's rest values; 0 leaves them at
            what was measured. Rest values of zero stay zero.
        norm_rate: Adam's step size for the corrections of norms while settling, in units of their gains; 0 leaves the
            norms alone, and so do rest values of zero.
        knots: The sparsities that norms are corrected at, rising in (0, 1).
        hot: Temperature of the first step, in standard deviations of the first scores.
        cold: Temperature of the last step.
        judge_every: Steps between looks at the held-out loss.
        ladder: Sparsities of the hard masks that are judged.
        checkpointing: Keep only each layer's input for the backward pass and run the layer again there: less memory
            for about half as much time again, and the same ranking.
    """

    steps: int = 240
    settle: int = 0
    sparsities: int = 2
    highest: float = 0.85
    rate: float = 0.3
    rest_rate: float = 0.05
    norm_rate: float = 0.003
    knots: tuple[float, ...] = KNOTS
    hot: float = 1.0
    cold: float = 0.1
    judge_every: int = 40
    ladder: tuple[float, ...] = (0.3, 0.5, 0.7)
    checkpointing: bool = False

    def __post_init__(self) -> None:
        """Refuse settings that no search can go by."""
        allowed = {
            "steps and settle are at least 0, sparsities and judge_every 1": min(self.steps, self.settle)
            >= 0
            < min(self.sparsities, self.judge_every),
            "highest is in (0, 1)": 0 < self.highest < 1,
            "the ladder has sparsities in [0, 1)": bool(self.ladder) and all(0 <= rung < 1 for rung in self.ladder),
            "rate is positive, rest_rate and norm_rate aren't negative": self.rate > 0
            and min(self.rest_rate, self.norm_rate) >= 0,
            "knots rise in (0, 1)": bool(self.knots) and _rises((0, *self.knots, 1)),
            "hot is at least cold, which is positive": self.hot >= self.cold > 0,
        }
        broken = [rule for rule, holds in allowed.items() if not holds]
        if broken:
            raise InputError(f"{self} can't be searched with: {'; '.join(broken)}. Change that.")

    @property
    def all_steps(self) -> int:
        """Steps of the search and of settling together."""
        return self.steps + self.settle

    def temperature(self, step: int) -> float:
        """Return the temperature at `step`: geometric from `hot` to `cold`."""
        return self.hot * (self.cold / self.hot) ** (step / max(1, self.steps - 1))

    def decay(self, step: int) -> float:
        """Return what step sizes are multiplied by at `step`: from 1 to 0.1 along a cosine, and again in settling."""
        done, all_of_them = (step, self.steps) if step < self.steps else (step - self.steps, self.settle)
        return 0.55 + 0.45 * math.cos(math.pi * done / max(1, all_of_them))


def _rises(values: Sequence[float]) -> bool:
    return all(lower < upper for lower, upper in pairwise(values))
