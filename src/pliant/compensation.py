"""How output maps are fitted: ridge regression from a cut's outputs to the full model's, without labels."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from pliant.anatomy import Anatomy
from pliant.batches import Batch, check_several, device_of, forward, hold_out, size, to_device
from pliant.budget import Alignment, Cut
from pliant.elastic import Elastic
from pliant.errors import InputError
from pliant.output_maps import OutputMaps
from pliant.pooling import distilled_poolings, kept_outputs
from pliant.ranking import Ranking

LADDER = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""The sparsities whose cuts get a map unless others are asked for."""

LINEAR_POOLINGS = ("cls", "mean", "last", "tokens")
"""The poolings that a map can be fitted to: linear in the tokens, so that the map can act on every token."""

RIDGE = 0.3
"""What holds a map back: λ, the penalty on its weights' squares, as a share of Σ ‖x‖² / width."""

_ROWS = 4096
"""Rows that are held in float64 at a time: a batch of long texts has many tokens."""

Watch = Callable[[int], None]
"""Called after every batch with the number of inputs seen."""


def maps_are_usual(ranking: Ranking, anatomy: Anatomy) -> bool:
    """Say whether a ranking's cuts get output maps by default: if they keep tokens, or an embedding linear in them.

    Not where rest values are zero, as nothing is compensated there.
    """
    pooling = _pooling_of(ranking, anatomy)
    kept = pooling in LINEAR_POOLINGS and pooling in distilled_poolings(ranking.provenance.get("objective"))
    return anatomy.output is not None and ranking.rest_kind == "mean" and kept


def pooling_of_maps(objective: object, pooling: str) -> str:
    """Return what maps are fitted to by default: tokens where the objective keeps them, or else the pooling.

    An embedding beside them is made of them, and gains as well.

    Args:
        objective: The name of the objective that the units are ranked for.
        pooling: The pooling of the embedding.
    """
    return "tokens" if "tokens" in distilled_poolings(objective) else pooling


def _pooling_of(ranking: Ranking, anatomy: Anatomy) -> str:
    made = ranking.provenance
    return pooling_of_maps(made.get("objective"), made.get("pooling") or anatomy.pooling)


def fit_output_maps(
    elastic: Elastic,
    batches: Iterable[Batch],
    *,
    sparsities: Iterable[float] = LADDER,
    pooling: str | None = None,
    inputs: int = 4096,
    watch: Watch | None = None,
) -> None:
    """Fit a linear map to the outputs of some cuts, in place of the maps that the elastic model has.

    Each map brings its cut's outputs nearer to the full model's and adds width × (width + 1) parameters to it. No
    weight changes, and the cuts between stay as they are. Nothing else may use the model meanwhile. Where something
    fails, the maps are those from before.

    With x the pooled output of a cut for an input, or its output for one valid token, and t the full model's, both
    divided by the length of t, a map minimises Σ ‖x + W x + b / ‖t‖ − t‖² + λ ‖W‖². The first quarter of the
    batches, at most 8, is held out: a map that doesn't lower their error is left out.

    Args:
        elastic: The elastic model.
        batches: Calibration inputs, without labels, as for `pliant.rank`.
        sparsities: The sizes that get a map.
        pooling: `cls`, `mean` or `last` for embeddings, or `tokens` for every token's output; by default `tokens` where
            the ranking's objective keeps them, and else its pooling.
        inputs: At most about so many inputs, each seen once; those held out aren't counted.
        watch: Called after every batch with the number of inputs seen.

    Raises:
        InputError: The model has no place for a map, the pooling isn't one of these, no size is asked for, there are
            fewer than two batches, or the outputs aren't finite.
        BudgetError: No cut can have one of the sparsities.

    Example:
        >>> import pliant, torch
        >>> from pliant.compensation import fit_output_maps
        >>> from transformers import BertConfig, BertModel
        >>> model = BertModel(BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        ...                              intermediate_size=64, vocab_size=100)).eval()
        >>> batches = [{"input_ids": torch.randint(0, 100, (4, 9))} for _ in range(40)]
        >>> elastic = pliant.Elastic(model, pliant.rank(model, batches, steps=2))
        >>> fit_output_maps(elastic, batches, sparsities=(0.3, 0.5))
        >>> elastic.ranking.output_maps.weights.shape
        torch.Size([2, 32, 32])
    """
    before = elastic.ranking
    found, story = before.output_maps, before.provenance.get("output_maps")
    wanted = pooling or _pooling_of(before, elastic.anatomy)
    check_possible(elastic.model, elastic.anatomy, wanted)
    asked = _sizes(sparsities)
    if not isinstance(inputs, int) or inputs < 1:
        raise InputError(f"inputs={inputs!r:.60} is no count of at least 1. Pass one, such as 4096.")
    elastic.use_output_maps_(None)
    try:
        cuts = list(dict.fromkeys(elastic.plan(sparsity=sparsity) for sparsity in asked if sparsity))
        if not cuts:
            raise InputError(f"sparsities={asked!r:.60} names no cut. Pass some, such as {LADDER}.")
        found = _maps(_fitted(elastic, cuts, batches, wanted, inputs, watch), elastic.alignment)
        story = {"sparsities": list(asked), "pooling": wanted, "inputs": inputs, "ridge": RIDGE}
    finally:
        elastic.use_output_maps_(found, story)


def _maps(solutions: Mapping[Cut, Tensor], alignment: Alignment) -> OutputMaps | None:
    """Return the maps of cuts from W and b, transposed and one below the other; None where no cut has one."""
    if not solutions:
        return None
    stacked = torch.stack(list(solutions.values())).float().cpu()
    return OutputMaps(
        widths=torch.tensor([cut.widths for cut in solutions]),
        weights=stacked[:, :-1].transpose(1, 2).contiguous(),
        biases=stacked[:, -1].contiguous(),
        alignment=torch.tensor([alignment.neurons, alignment.heads]),
    )


def check_possible(model: nn.Module, anatomy: Anatomy, pooling: str) -> None:
    """Refuse, before long work, a model or a pooling that no output map can be fitted to.

    Raises:
        InputError: The model has no place for a map, or the pooling isn't one of `LINEAR_POOLINGS`.
    """
    if anatomy.output is None:
        raise InputError(f"This {type(model).__name__} has no place for an output map. Use it without.")
    if pooling not in LINEAR_POOLINGS:
        raise InputError(
            f"An output map can't be fitted to the pooling {pooling!r}. Allowed: {', '.join(LINEAR_POOLINGS)}, "
            "which are linear in the tokens."
        )


def _sizes(sparsities: Iterable[float]) -> tuple[float, ...]:
    if isinstance(sparsities, str) or not isinstance(sparsities, Iterable):
        raise InputError(f"sparsities={sparsities!r:.60} is no list of sizes. Pass some, such as {LADDER}.")
    return tuple(sparsities)


def _fitted(
    elastic: Elastic, cuts: Sequence[Cut], batches: Iterable[Batch], pooling: str, inputs: int, watch: Watch | None
) -> dict[Cut, Tensor]:
    """Return W and b, transposed and one below the other, float64 `[width + 1, width]`, of each cut that they help."""
    assert elastic.anatomy.output is not None
    width, device = elastic.anatomy.output.width, device_of(elastic.model)
    check_several(batches)
    stream = iter(batches)
    held_out, others = hold_out(stream)
    judges, sums = ([_Sums(width, device) for _ in cuts] for _ in range(2))
    module = elastic.anatomy.output.module
    with torch.no_grad():

        def look(batch: Batch, totals: list[_Sums]) -> None:
            placed = to_device(batch, device)
            target = _kept(elastic.model, module, placed, pooling)
            for cut, total in zip(cuts, totals, strict=True):
                total.add_(_kept(elastic.view(cut), module, placed, pooling), target)

        for batch in held_out:
            look(batch, judges)
        seen = 0
        for batch in chain(others, stream):
            look(batch, sums)
            seen += size(batch)
            if watch is not None:
                watch(seen)
            if seen >= inputs:
                break
    solutions = [total.solved() for total in sums]
    found = zip(cuts, solutions, judges, strict=True)
    return {cut: solution for cut, solution, judge in found if judge.gain(solution) > 0}


def _kept(model: nn.Module, module: str, batch: Batch, pooling: str) -> Tensor:
    """Run a model on a batch and return its pooled outputs, or valid tokens, `[rows, width]`.

    They are taken behind the module that a map will follow, whatever the model makes of them afterwards.
    """
    seen: list[Tensor] = []

    def note(_module: nn.Module, _inputs: Any, tokens: Tensor) -> None:
        seen.append(tokens)

    handle = model.get_submodule(module).register_forward_hook(note)
    try:
        forward(model, batch)
    finally:
        handle.remove()
    found = kept_outputs(seen[-1], batch, pooling)
    if not found.isfinite().all():
        raise InputError(
            "The model's outputs are not finite on the calibration inputs. Check its weights, or use float32."
        )
    return found


class _Sums:
    """What a ridge regression needs of all rows: second moments of its features and of the errors to correct."""

    def __init__(self, width: int, device: torch.device) -> None:
        self.features = torch.zeros(width + 1, width + 1, dtype=torch.float64, device=device)
        self.errors = torch.zeros(width + 1, width, dtype=torch.float64, device=device)

    def add_(self, slim: Tensor, full: Tensor) -> None:
        """Count the outputs of a cut and of the full model, `[rows, width]` both."""
        for some, targets in zip(slim.split(_ROWS), full.split(_ROWS), strict=True):
            self._count_(some.double(), targets.double())

    def _count_(self, slim: Tensor, full: Tensor) -> None:
        length = full.norm(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
        features = torch.cat([slim, torch.ones_like(length)], dim=1) / length
        self.features += features.T @ features
        self.errors += features.T @ ((full - slim) / length)

    def solved(self) -> Tensor:
        """Return W and b, transposed and one below the other, `[width + 1, width]`."""
        penalty = RIDGE * self.features.diagonal()[:-1].mean().expand(len(self.features)).clone()
        # Nothing but the data speaks about a constant.
        penalty[-1] = 1e-9 * self.features[-1, -1]
        # Of outputs that are all zero nothing is known, and the map does nothing.
        smallest = torch.finfo(penalty.dtype).tiny
        return torch.linalg.solve(self.features + penalty.clamp(min=smallest).diag(), self.errors)

    def gain(self, solution: Tensor) -> Tensor:
        """Return by how much a map lowers the squared error on these rows."""
        return 2 * (solution * self.errors).sum() - (solution * (self.features @ solution)).sum()
