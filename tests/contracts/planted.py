"""A model of which half of the units hardly matter, and its rankings."""

import json
from functools import cache
from typing import Any

import torch
from contracts.models import by_name
from contracts.specimen import Specimen
from torch import Tensor

from pliant.families import describe
from pliant.rankers.rank import rank
from pliant.rankers.soft_mask import SoftMask
from pliant.ranking import Ranking

SPECIMEN: Specimen = by_name("bert")
QUICK = SoftMask(steps=9, judge_every=3)


@torch.no_grad()
def planted(specimen: Specimen = SPECIMEN) -> tuple[Any, Tensor]:
    """A model whose odd units are all but silenced, and which units matter, bool `[units]`."""
    model = specimen.model()
    anatomy = describe(model)
    matters = torch.ones(anatomy.units, dtype=torch.bool)
    for site, units in anatomy.slices():
        matters[units] = torch.arange(site.units) % 2 == 0
        quiet = (~matters[units]).repeat_interleave(site.width)
        model.get_submodule(site.consumer).weight[:, quiet] *= 0.02
    return model, matters


def ranked(ranker: str, seed: int = 0, batches: Any = None, **options: Any) -> Ranking:
    model, _ = planted()
    options = {"settings": QUICK, **options}
    return rank(model, SPECIMEN.batches() if batches is None else batches, ranker=ranker, seed=seed, **options)


@cache
def first(ranker: str) -> Ranking:
    return ranked(ranker)


def assert_same(one: Ranking, other: Ranking) -> None:
    assert torch.equal(one.scores, other.scores)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(one.rest, other.rest, strict=True))
    assert (one.norms is None) == (other.norms is None)
    assert one.norms is None or other.norms is None or torch.equal(one.norms.values, other.norms.values)
    assert (one.rest_kind, one.fingerprint) == (other.rest_kind, other.fingerprint)
    assert json.dumps(one.provenance, sort_keys=True) == json.dumps(other.provenance, sort_keys=True)
