"""Padding never counts: not in rest values, not in rankings, not in outputs."""

from typing import Any

import pytest
import torch
from contracts.elastics import elastic
from contracts.models import TEXT, by_name
from contracts.specimen import PatchSpecimen, Side, Specimen, output_of, sentences, spread
from torch import Tensor

from pliant.families import describe
from pliant.rankers.calibration import rest_values
from pliant.rankers.rank import RANKERS, rank

texts = pytest.mark.parametrize("specimen", TEXT, ids=lambda specimen: specimen.name)
sides = pytest.mark.parametrize("side", ["right", "left"])
LENGTHS = (7, 5, 9, 1, 3)


def texts_of(specimen: Specimen, lengths: tuple[int, ...] = LENGTHS, seed: int = 0) -> list[Tensor]:
    return sentences(lengths, seed, first=specimen.padding_word + 1)


def valid_outputs(model: Any, batch: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        return output_of(model(**batch))[batch["attention_mask"].bool()]


@texts
@sides
def test_rest_values(specimen: Specimen, side: Side) -> None:
    model = specimen.model()
    anatomy, words = describe(model), texts_of(specimen)
    alone = rest_values(model, anatomy, [specimen.padded([text]) for text in words], "mean")
    together = rest_values(model, anatomy, [specimen.padded(words, length=16, side=side)], "mean")
    for one, other in zip(alone, together, strict=True):
        assert one.abs().max() > 0.1
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


# Poolers that read a position which padding takes: the classifier's the first one, SigLIP's the last.
POOLS_PADDING = {("bert-classifier", "left"), ("siglip-text", "right"), ("siglip2-text", "right")}
PADDED = [(one, side) for one in TEXT for side in ("right", "left") if (one.name, side) not in POOLS_PADDING]


@pytest.mark.parametrize(("specimen", "side"), PADDED, ids=lambda value: getattr(value, "name", value))
@pytest.mark.parametrize("ranker", RANKERS)
def test_rankings(specimen: Specimen, side: Side, ranker: str) -> None:
    """Texts of one length, with padding that nobody needs and without: the same embeddings, so the same scores."""
    objective = spread if specimen.name == "bert-classifier" else None
    words = [texts_of(specimen, (length,) * 3, seed=length) for length in (5, 8, 3, 6)]
    found = [
        rank(
            specimen.model(),
            [specimen.padded(batch, length, side) for batch in words],
            ranker=ranker,
            objective=objective,
            steps=4,
        )
        for length in (0, 14)
    ]
    bare, padded = (ranking.scores for ranking in found)
    torch.testing.assert_close(bare, padded, atol=2e-4, rtol=1e-3)
    for one, other in zip(found[0].rest, found[1].rest, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("specimen", [one for one in TEXT if one.name != "bert-classifier"], ids=lambda one: one.name)
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.75])
def test_outputs(specimen: Specimen, sparsity: float) -> None:
    model, words = elastic(specimen.name).at(sparsity=sparsity), texts_of(specimen)
    alone = torch.cat([valid_outputs(model, specimen.padded([text])) for text in words])
    for side in ("right", "left"):
        together = valid_outputs(model, specimen.padded(words, length=16, side=side))
        torch.testing.assert_close(alone, together, atol=1e-5, rtol=0)


@pytest.mark.parametrize("pooling", ["pooler", "mean", "tokens"])
def test_patches(pooling: str) -> None:
    """Images of several shapes, with patches that pad them and with as few as there can be."""
    specimen = by_name("siglip2-vision")
    assert isinstance(specimen, PatchSpecimen)
    found = [
        rank(
            specimen.model(),
            [specimen.images((24, 40), seed, patches=patches) for seed in range(4)],
            ranker="fisher",
            pooling=pooling,
        )
        for patches in (0, 20)
    ]
    torch.testing.assert_close(found[0].scores, found[1].scores, atol=2e-5, rtol=1e-4)
    for one, other in zip(found[0].rest, found[1].rest, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "cls", "last", "tokens"])
@sides
def test_every_pooling(pooling: str, side: Side) -> None:
    specimen = TEXT[0]
    words = [texts_of(specimen, (length,) * 2, seed=length) for length in (5, 8, 3)]
    bare, padded = (
        rank(
            specimen.model(),
            [specimen.padded(batch, length, side) for batch in words],
            ranker="fisher",
            pooling=pooling,
        ).scores
        for length in (0, 14)
    )
    torch.testing.assert_close(bare, padded, atol=2e-5, rtol=1e-4)
