from pathlib import Path

import pytest
import torch
from cli.specimens import image_model, text_model
from contracts.models import by_name

from pliant.budget import Alignment
from pliant.checkpoint import open_checkpoint
from pliant.elastic import Elastic
from pliant.errors import InputError
from pliant.families import describe
from pliant.speed.inputs import inputs_of, length_of, unranked


def test_texts_have_just_the_length_that_is_asked_for(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(str(text_model(tmp_path / "model")))
    found = inputs_of(checkpoint, [1, 5], 17)
    assert [batch["input_ids"].shape for batch in found if not isinstance(batch, torch.Tensor)] == [(1, 17), (5, 17)]
    assert all(batch["attention_mask"].all() for batch in found if not isinstance(batch, torch.Tensor))
    assert length_of(checkpoint.model, found[1]) == 17
    with pytest.raises(InputError, match="41 tokens are too many for"):
        inputs_of(checkpoint, [1], 41)


def test_images_have_the_size_that_is_asked_for(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(str(image_model(tmp_path / "model")))
    (own,), (other,) = inputs_of(checkpoint, [2], 128), inputs_of(checkpoint, [2], 128, image_size=16)
    assert not isinstance(own, torch.Tensor) and not isinstance(other, torch.Tensor)
    assert (own["pixel_values"].shape, other["pixel_values"].shape) == ((2, 3, 24, 24), (2, 3, 16, 16))
    assert length_of(checkpoint.model, own) == 1 + 3 * 3


def test_embeddings_have_no_length() -> None:
    assert length_of(torch.nn.Linear(3, 2), torch.zeros(4, 3)) is None


def test_without_a_ranking_all_sites_lose_about_the_same_share() -> None:
    model = by_name("bert").model()
    anatomy = describe(model)
    elastic = Elastic(model, unranked(model, anatomy), alignment=Alignment(neurons=1))
    widths = elastic.plan(sparsity=0.5).widths
    shares = [width / site.units for width, site in zip(widths, anatomy.sites, strict=True) if site.kind == "neurons"]
    assert all(0.25 < share < 0.75 for share in shares)
    assert torch.equal(unranked(by_name("bert").model(), anatomy).scores, elastic.ranking.scores)
