"""Models of two towers, CLIP and SigLIP: each tower by itself, and the embeddings that they pool and project."""

from typing import Any

import pytest
import torch
from contracts.models import by_name
from contracts.specimen import randomised_
from torch import nn
from transformers import (
    CLIPConfig,
    CLIPModel,
    CLIPVisionModelWithProjection,
    Siglip2Config,
    Siglip2Model,
    SiglipConfig,
    SiglipModel,
)

from pliant.elastic import Elastic
from pliant.errors import UnsupportedModelError
from pliant.families import describe
from pliant.pooling import pool
from pliant.rankers.rank import rank

PAIRS: dict[str, tuple[Any, Any]] = {
    "clip": (CLIPModel, CLIPConfig),
    "siglip": (SiglipModel, SiglipConfig),
    "siglip2": (Siglip2Model, Siglip2Config),
}


def pair(name: str) -> Any:
    model_class, config_class = PAIRS[name]
    texts, images = by_name(f"{name}-text").options, by_name(f"{name}-vision").options
    return randomised_(model_class(config_class(text_config=texts, vision_config=images)), 0).eval()


@pytest.mark.parametrize("name", PAIRS)
def test_two_towers_are_refused_and_each_is_taken(name: str) -> None:
    model = pair(name)
    with pytest.raises(UnsupportedModelError, match=r"several towers.*pass model\.text_model or model\.vision_model\."):
        describe(model)
    for tower in (model.text_model, model.vision_model):
        assert [site.units for site in describe(tower).sites] == [4, 44, 4, 44]


def test_two_models_of_one_family_are_two_towers() -> None:
    two = nn.ModuleDict({"query": by_name("bert").model(), "passage": by_name("roberta").model()})
    with pytest.raises(UnsupportedModelError, match=r"pass model\.passage or model\.query"):
        describe(two)


@torch.no_grad()
def test_a_tower_can_be_put_back() -> None:
    model, specimen = pair("clip"), by_name("clip-vision")
    before = model.get_image_features(**specimen.batch()).pooler_output
    whole = Elastic(model.vision_model, rank(model.vision_model, specimen.batches(), ranker="magnitude"))
    torch.testing.assert_close(model.get_image_features(**specimen.batch()).pooler_output, before, atol=1e-5, rtol=0)
    model.vision_model = whole.cut(sparsity=0.5)
    expected = model.visual_projection(whole.at(sparsity=0.5)(**specimen.batch()).pooler_output)
    found = model.get_image_features(**specimen.batch()).pooler_output
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert (found - before).abs().max() > 1e-3


@pytest.mark.parametrize(("name", "embedding"), [("clip-text", "text_embeds"), ("siglip-text", "pooler_output")])
@torch.no_grad()
def test_the_usual_pooling_is_the_towers_own(name: str, embedding: str) -> None:
    specimen = by_name(name)
    model, batch = specimen.model(), specimen.batch()
    outputs = model(**batch)
    assert pool(outputs, batch, describe(model).pooling) is outputs[embedding]


@torch.no_grad()
def test_the_vision_tower_with_its_projection() -> None:
    specimen = by_name("clip-vision")
    model = CLIPVisionModelWithProjection(specimen.config_class(**specimen.options, projection_dim=20)).eval()
    outputs = model(**specimen.batch())
    assert pool(outputs, specimen.batch(), describe(model).pooling) is outputs.image_embeds


def test_the_attention_that_pools_stays_whole() -> None:
    model = by_name("siglip-vision").model()
    anatomy = describe(model)
    paths = [path for site in anatomy.sites for path in (site.consumer, *(part.module for part in site.producers))]
    assert not any(path.startswith("head") for path in paths)
    inside = sum(parameter.numel() for parameter in model.encoder.layers.parameters())
    outside = sum(parameter.numel() for parameter in model.parameters()) - inside
    assert anatomy.total_parameters - anatomy.prunable_parameters >= outside
