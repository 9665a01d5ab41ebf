"""Rankings and elastic models of the specimens, made once, and the masks that a cut stands for."""

from functools import cache
from typing import Any, NamedTuple

import torch
from contracts.models import by_name
from contracts.specimen import Specimen, spread
from torch import Tensor, nn

from pliant.anatomy import Anatomy
from pliant.budget import Alignment, Cut
from pliant.elastic import Elastic
from pliant.families import describe
from pliant.gates import gated
from pliant.rankers.rank import rank
from pliant.ranking import Ranking, Rest


@cache
def ranked(name: str, rest: Rest = "mean", ranker: str = "random") -> Ranking:
    """A ranking of the specimen's model; random scores cut every site somewhere else."""
    specimen = by_name(name)
    return rank(specimen.model(), specimen.batches(), ranker=ranker, rest=rest, objective=spread)


@cache
def elastic(name: str, rest: Rest = "mean", neurons: int = 8) -> Elastic:
    """One Elastic for many tests, which must leave it as it is."""
    return fresh_elastic(by_name(name), rest, neurons)


def fresh_elastic(specimen: Specimen, rest: Rest = "mean", neurons: int = 8) -> Elastic:
    return Elastic(specimen.model(), ranked(specimen.name, rest), alignment=Alignment(neurons=neurons))


def masks_of(anatomy: Anatomy, ranking: Ranking, cut: Cut) -> Tensor:
    """Ones for the best units of each site, as many as the cut keeps, and zeros for the others."""
    masks = torch.zeros(anatomy.units)
    for (_, units), width in zip(anatomy.slices(), cut.widths, strict=True):
        best = torch.argsort(ranking.scores[units], descending=True, stable=True)[:width]
        masks[units][best] = 1
    return masks


def masked_outputs(specimen: Specimen, model: Any, ranking: Ranking, cut: Cut, batch: Any) -> Any:
    """What the full model gives for a batch with the units masked that a cut removes."""
    anatomy = describe(model)
    with gated(model, anatomy, ranking.rest) as gates:
        gates.masks = masks_of(anatomy, ranking, cut)
        return specimen.call(model, batch)


class Origin(NamedTuple):
    """Where the full model has a parameter of a view or a cut: its name there, and the part of it if that is packed."""

    name: str
    part: int


def origin(name: str, anatomy: Anatomy) -> Origin:
    """Where the full model has a parameter; a view keeps packed projections, and biases beside them, apart."""
    producers = {producer.module: producer for site in anatomy.sites for producer in site.producers}
    layer, _, key = name.rpartition(".")
    module, _, kind = layer.rpartition(".")
    if module not in producers or kind not in ("weights", "biases"):
        return Origin(name, 0)
    outside = producers[module].biases[int(key)] if kind == "biases" and producers[module].biases else None
    return Origin(outside, 0) if outside else Origin(f"{module}.{'weight' if kind == 'weights' else 'bias'}", int(key))


def rest_biases(anatomy: Anatomy) -> set[str]:
    """Names of the parameters that a cut has of its own: biases of consumers, and the constants of emptied sites."""
    constants = {f"{site.sublayer.module}.bias" for site in anatomy.sites if site.sublayer}
    return constants | {f"{site.consumer}.bias" for site in anatomy.sites}


def unpacked(model: nn.Module, anatomy: Anatomy) -> dict[Origin, Tensor]:
    """A standalone model's parameters; of a layer that packs several projections, one for each of them."""
    parts = {producer.module: producer.parts for site in anatomy.sites for producer in site.producers}
    found = {}
    for name, parameter in model.named_parameters():
        whole = origin(name, anatomy)
        # A layer that is in one piece again has all of its parts in one parameter.
        pieces = parts.get(name.rpartition(".")[0], 1)
        for part, rows in enumerate(parameter.chunk(pieces)):
            found[Origin(whole.name, whole.part + part)] = rows
    return found


def tensors(outputs: Any) -> dict[str, Tensor]:
    """The tensors that a call returned; a decoder gives its cache of keys and values beside them."""
    return {name: value for name, value in outputs.items() if isinstance(value, Tensor)}


def assert_equal_outputs(mine: Any, other: Any, tolerance: float = 1e-5) -> None:
    """Compare every tensor that two calls returned."""
    assert mine.keys() == other.keys() and tensors(mine)
    for name, tensor in tensors(mine).items():
        torch.testing.assert_close(tensor, other[name], atol=tolerance, rtol=0)
