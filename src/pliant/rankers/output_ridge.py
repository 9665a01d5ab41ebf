"""Output maps of a ranking: ridge regression from the outputs of its cuts to the full model's.

Label-free and after the search: no score, weight or rest value changes. Each map is fitted on training inputs and
kept if it brings the held-out ones nearer to the full model.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from pliant.anatomy import Output
from pliant.batches import Batch, forward, size, to_device
from pliant.errors import InputError
from pliant.objectives import Distillation, Objective
from pliant.output_maps import OutputMaps
from pliant.pooling import pool
from pliant.rankers.calibration import Calibration
from pliant.rankers.soft_topk import hard_topk
from pliant.ranking import Rest

_POOLINGS = ("cls", "mean", "last")


@dataclass(frozen=True)
class Fitting:
    """How output maps are fitted.

    Args:
        sparsities: One map is fitted at each.
        inputs: At most about so many training inputs.
        ridge: What holds a map back: the penalty on its weights' squares, as a share of the embeddings' mean square.
    """

    sparsities: tuple[float, ...] = (0.15, 0.3, 0.45, 0.6, 0.75)
    inputs: int = 2048
    ridge: float = 0.3


def usual(output: Output | None, objective: Objective, rest: Rest) -> bool:
    """Say whether cuts are followed by a map unless the user decides: where one embedding is pooled from tokens.

    Args:
        output: Where the token outputs come from.
        objective: What the ranking keeps.
        rest: The kind of rest values; with zeros, nothing is compensated.
    """
    return output is not None and rest == "mean" and _pooling(objective) in _POOLINGS


def _pooling(objective: Objective) -> str:
    return objective.pooling if isinstance(objective, Distillation) else ""


def check(output: Output | None, objective: Objective) -> None:
    """Refuse a wish for output maps that can't be met.

    Raises:
        InputError: The embedding isn't pooled from its tokens, or the family knows no place for a map.
    """
    if output is None:
        raise InputError("This model has no place for an output map. Leave output_map=True out.")
    if _pooling(objective) not in _POOLINGS:
        raise InputError(
            f"An output map is fitted to an embedding that is pooled from tokens by {', '.join(_POOLINGS)}; the "
            f"objective here is {objective.name}. Leave output_map=True out."
        )


def fit(
    calibration: Calibration, scores: Tensor, rest: tuple[Tensor, ...], settings: Fitting | None = None
) -> OutputMaps:
    """Fit a map at each of some sparsities.

    With x the pooled output of a cut and t the full model's, both divided by the length of t, a map minimises
    Σ ‖x + W x + b − t‖² + λ ‖W‖² over the training inputs, b divided by that length too.

    Args:
        calibration: The model and its inputs.
        scores: `[units]`.
        rest: For each site, the rest values `[units × width]`.
        settings: How it goes.
    """
    output = calibration.anatomy.output
    assert output is not None
    chosen = settings or Fitting()
    masks = [hard_topk(scores, calibration.costs, sparsity) for sparsity in chosen.sparsities]
    training, held_out = ([_Sums(output.width, calibration.device) for _ in masks] for _ in range(2))
    with torch.no_grad(), calibration.gated(rest) as gates, _pooled_outputs(calibration) as pooled:

        def look(batch: Batch, sums: list[_Sums]) -> None:
            gates.masks = None
            full = pooled(batch)
            for gates.masks, total in zip(masks, sums, strict=True):
                total.add_(pooled(batch), full)

        for batch in _first(calibration.stream.once(), chosen.inputs):
            look(to_device(batch, calibration.device), training)
        for batch in calibration.stream.held_out:
            look(to_device(batch, calibration.device), held_out)
    solutions = [_kept(sums.solved(chosen.ridge), judge) for sums, judge in zip(training, held_out, strict=True)]
    maps = torch.stack(solutions).float().cpu()
    sparsities = torch.tensor(chosen.sparsities, dtype=torch.float64)
    return OutputMaps(sparsities, maps[:, :-1].transpose(1, 2).contiguous(), maps[:, -1].contiguous())


def _first(batches: Iterable[Batch], inputs: int) -> Iterator[Batch]:
    """Yield batches until they hold `inputs` inputs."""
    seen = 0
    for batch in batches:
        yield batch
        seen += size(batch)
        if seen >= inputs:
            return


@contextmanager
def _pooled_outputs(calibration: Calibration) -> Iterator[Callable[[Batch], Tensor]]:
    """Yield what runs the model on a batch and returns its pooled token outputs, float64 `[batch, width]`.

    They are taken where a map will follow, whatever the model makes of them afterwards.
    """
    output = calibration.anatomy.output
    assert output is not None
    pooling = _pooling(calibration.objective)
    seen: list[Tensor] = []
    norm = calibration.model.get_submodule(output.module)
    handle = norm.register_forward_hook(lambda _module, _inputs, tokens: seen.append(tokens))

    def pooled(batch: Batch) -> Tensor:
        seen.clear()
        forward(calibration.model, batch)
        return pool(seen[-1], batch, pooling).double()

    try:
        yield pooled
    finally:
        handle.remove()


class _Sums:
    """What a ridge regression needs of all inputs: second moments of its features and of the errors to correct."""

    def __init__(self, width: int, device: torch.device) -> None:
        self.features = torch.zeros(width + 1, width + 1, dtype=torch.float64, device=device)
        self.errors = torch.zeros(width + 1, width, dtype=torch.float64, device=device)

    def add_(self, slim: Tensor, full: Tensor) -> None:
        """Count the pooled outputs of a cut and of the full model, float64 `[batch, width]` both."""
        length = full.norm(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
        features = torch.cat([slim, torch.ones_like(length)], dim=1) / length
        self.features += features.T @ features
        self.errors += features.T @ ((full - slim) / length)

    def solved(self, ridge: float) -> Tensor:
        """Return W and b, transposed and one below the other, `[width + 1, width]`."""
        weights = self.features.diagonal()[:-1]
        penalty = torch.full_like(self.features.diagonal(), ridge * weights.mean())
        # Nothing but the data speaks about a constant.
        penalty[-1] = 1e-9 * self.features[-1, -1]
        return torch.linalg.solve(self.features + penalty.diag(), self.errors)

    def gain(self, solution: Tensor) -> Tensor:
        """Return by how much a map lowers the squared error on these inputs."""
        return 2 * (solution * self.errors).sum() - (solution * (self.features @ solution)).sum()


def _kept(solution: Tensor, judge: _Sums) -> Tensor:
    """Return a solution, or one that does nothing if that is better on inputs that it wasn't fitted to."""
    return solution if judge.gain(solution) > 0 else torch.zeros_like(solution)
