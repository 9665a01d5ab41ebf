"""Output maps as the user asks for them."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import torch
import typer

from pliant.batches import Batch
from pliant.budget import Budget, plan
from pliant.checkpoint import Checkpoint
from pliant.cli.calibration import CalibrationData
from pliant.cli.console import Report, numbers
from pliant.compensation import LADDER, Watch, check_possible, fit_output_maps, maps_are_usual, pooling_of_maps
from pliant.elastic import Elastic
from pliant.errors import BudgetError, InputError
from pliant.families import describe
from pliant.objectives import objective_of
from pliant.ranking import Ranking

Sizes = Annotated[
    str | None,
    typer.Option(
        help=f"Sparsities whose cuts get an output map, or none: by default {LADDER[0]} to {LADDER[-1]} where tokens "
        "are kept, or an embedding pooled from them by cls, mean or last."
    ),
]

_INPUTS = 4096


@dataclass(frozen=True)
class MapsWanted:
    """Which cuts are to get an output map.

    Args:
        sparsities: Those that were named; None for the usual ones, where maps are usual.
    """

    sparsities: tuple[float, ...] | None

    @classmethod
    def of(cls, text: str | None) -> "MapsWanted":
        """Read sparsities with commas between them, or `none`.

        Raises:
            InputError: It is neither.
        """
        if text is None:
            return cls(None)
        if text.strip().lower() == "none":
            return cls(())
        sparsities = numbers(text, "--output-maps")
        if not all(0 < sparsity < 1 for sparsity in sparsities):
            raise InputError(f"--output-maps {text!r}: sparsities are above 0 and below 1, such as 0.3,0.5; or none.")
        return cls(sparsities)

    def check(self, checkpoint: Checkpoint, pooling: str | None, objective: str | None) -> None:
        """Refuse before the ranking what couldn't be fitted after it.

        Args:
            checkpoint: The model, which stays as it is.
            pooling: The pooling that it is ranked for; None for its family's.
            objective: The objective, likewise.

        Raises:
            InputError: Maps are asked for that the model can't have.
            BudgetError: No cut can have a sparsity that is asked for.
        """
        if not self.sparsities:
            return
        anatomy = describe(checkpoint.model)
        pooling = pooling or anatomy.pooling
        kept = objective_of(objective or anatomy.objective, pooling).name
        check_possible(checkpoint.model, anatomy, pooling_of_maps(kept, pooling))
        # How small a cut can be doesn't depend on the order of units.
        anyhow = Ranking(torch.zeros(anatomy.units), (), "mean", "", {})
        for sparsity in self.sparsities:
            plan(anatomy, anyhow, Budget.of(sparsity=sparsity))

    def fitted(self, checkpoint: Checkpoint, ranking: Ranking, source: CalibrationData, report: Report) -> Ranking:
        """Return the ranking with the maps that are wanted; the checkpoint's model is taken over for them.

        Raises:
            InputError: Maps were asked for that the model can't have.
            BudgetError: No cut can have a sparsity that was asked for.
        """
        if self.sparsities == ():
            return ranking
        elastic = Elastic(checkpoint.model, ranking)
        if self.sparsities is None and not maps_are_usual(ranking, elastic.anatomy):
            return ranking
        chosen = _possible(elastic) if self.sparsities is None else self.sparsities
        if chosen:
            batches = source.batches(checkpoint)
            fit_output_maps(elastic, batches, sparsities=chosen, inputs=_INPUTS, watch=_watch(report))
        return elastic.ranking


def fit_like_(elastic: Elastic, ranking: Ranking, batches: Iterable[Batch]) -> None:
    """Give an elastic model output maps of the sizes that another ranking has them for, fitted in the same way."""
    if (story := ranking.provenance.get("output_maps")) is not None:
        sizes, pooling, inputs = story["sparsities"], story["pooling"], story["inputs"]
        fit_output_maps(elastic, batches, sparsities=sizes, pooling=pooling, inputs=inputs)


def _watch(report: Report) -> Watch:
    return lambda seen: report(f"output maps, {seen} inputs", min(1.0, seen / _INPUTS))


def _possible(elastic: Elastic) -> tuple[float, ...]:
    """Return the usual sparsities that the model has cuts for."""
    found = []
    for sparsity in LADDER:
        with suppress(BudgetError):
            elastic.plan(sparsity=sparsity)
            found.append(sparsity)
    return tuple(found)
