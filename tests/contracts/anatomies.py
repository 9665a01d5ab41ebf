"""Random anatomies and rankings without any model, for tests of planning."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from hypothesis import strategies as st

from pliant.anatomy import Anatomy, Producer, Site, Sublayer
from pliant.ranking import Ranking


def neurons(index: int, units: int, inputs: int = 6, outputs: int = 6, producers: int = 1, bias: bool = True) -> Site:
    made = tuple(Producer(f"layer.{index}.up.{number}", 1, inputs, bias) for number in range(producers))
    return Site(f"layer.{index}.mlp", "neurons", index, units, 1, f"layer.{index}.down", outputs, made)


def heads(index: int, units: int, width: int = 4, inputs: int = 6, outputs: int = 6, bias: bool = True) -> Site:
    made = tuple(Producer(f"layer.{index}.{name}", width, inputs, bias) for name in "qkv")
    return Site(f"layer.{index}.attention", "heads", index, units, width, f"layer.{index}.o", outputs, made)


def anatomy_of(
    sites: Sequence[Site], others: int = 100, per_token: int = 0, fixed: int = 0, native: int = 16
) -> Anatomy:
    prunable = sum(site.units * site.unit_parameters for site in sites)
    return Anatomy("made up", tuple(sites), "mean", prunable + others, native, per_token, fixed)


def ranking_of(anatomy: Anatomy, scores: Sequence[float]) -> Ranking:
    rest = tuple(torch.zeros(site.units * site.width) for site in anatomy.sites)
    return Ranking(torch.tensor(scores, dtype=torch.float32), rest, "zero", "none", {})


@st.composite
def variants(draw: st.DrawFn, site: Site) -> Site:
    """The site as it is, or one that may be emptied, or whose consumer gains a bias when units leave."""
    emptied = st.builds(Sublayer, st.just(site.name), st.just(1), st.integers(0, 50))
    return replace(site, consumer_bias=draw(st.booleans()), sublayer=draw(st.none() | emptied))


@st.composite
def anatomies(draw: st.DrawFn) -> Anatomy:
    sites = []
    for index in range(draw(st.integers(1, 5))):
        inputs, outputs, bias = draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.booleans())
        if draw(st.booleans()):
            sites.append(neurons(index, draw(st.integers(1, 40)), inputs, outputs, draw(st.integers(1, 2)), bias))
        else:
            sites.append(heads(index, draw(st.integers(1, 8)), draw(st.integers(1, 5)), inputs, outputs, bias))
    sites = [draw(variants(site)) for site in sites]
    held = sum(site.sublayer.others for site in sites if site.sublayer)
    others, per_token, fixed = (draw(st.integers(0, 1000)) for _ in range(3))
    return anatomy_of(sites, others + held, per_token, fixed, draw(st.integers(1, 50)))


@st.composite
def ranked_anatomies(draw: st.DrawFn) -> tuple[Anatomy, Ranking]:
    """Scores with many ties, and with none."""
    anatomy = draw(anatomies())
    few = st.sampled_from([-1.0, 0.0, -0.0, 0.5, 1e-30])
    score = draw(st.sampled_from([few, st.floats(-1e3, 1e3, width=32)]))
    scores = draw(st.lists(score, min_size=anatomy.units, max_size=anatomy.units))
    return anatomy, ranking_of(anatomy, scores)
