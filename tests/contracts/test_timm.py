"""What only timm's models have: other ways to call them, attention that changes its class, and what is refused."""

from typing import Any

import pytest
import torch
from contracts.elastics import elastic, fresh_elastic
from contracts.models import by_name
from contracts.timm_models import TIMM
from torch import nn

from pliant.elastic import Elastic
from pliant.errors import UnsupportedModelError
from pliant.families import describe
from pliant.rankers.rank import rank

pytest.importorskip("timm")
specimens = pytest.mark.parametrize("specimen", TIMM, ids=lambda specimen: specimen.name)


def make(architecture: str, **options: Any) -> Any:
    import timm

    with torch.device("meta"):
        return timm.create_model(architecture, **options)


@specimens
@torch.no_grad()
def test_features_and_intermediates_of_views_and_cuts(specimen: Any) -> None:
    whole, images = elastic(specimen.name), specimen.images((16, 32), count=2)
    models: tuple[Any, ...] = (whole.at(sparsity=0.6), whole.cut(sparsity=0.6))
    for model in models:
        final, maps = model.forward_intermediates(images, norm=False)
        torch.testing.assert_close(final, model.forward_features(images), atol=1e-6, rtol=0)
        assert [list(found.shape) for found in maps] == [[2, 32, 2, 4]] * 2
        head = model.forward_head(final)
        torch.testing.assert_close(head, model(images), atol=1e-6, rtol=0)


@specimens
def test_the_default_objective_keeps_what_the_model_returns(specimen: Any) -> None:
    found = rank(specimen.model(), specimen.batches(4), steps=2)
    assert found.provenance["objective"] == f"distillation of {describe(specimen.model()).pooling}"
    half = Elastic(specimen.model(), found).at(sparsity=0.3)
    with torch.no_grad():
        assert half(specimen.batch()).shape == specimen.model()(specimen.batch()).shape


POOLINGS = {
    "timm-vit": "cls",
    "timm-distilled": "cls",
    "timm-attention-pool": "pooler",
    "timm-post-norm": "mean",
    "timm-dinov3": "mean",
}


@pytest.mark.parametrize("name", POOLINGS)
def test_the_pooling_is_the_models_own(name: str) -> None:
    assert describe(by_name(name).model()).pooling == POOLINGS[name]


@pytest.mark.parametrize("class_token", [True, False])
def test_without_a_pooling_there_are_tokens(class_token: bool) -> None:
    model = make("vit_tiny_patch16_224", global_pool="", class_token=class_token, num_classes=7)
    pooled = make("vit_tiny_patch16_224", global_pool="avg", class_token=class_token, num_classes=7)
    assert describe(model).pooling == ("cls" if class_token else "mean")
    # The classifier reads every token.
    tokens = describe(model).native_tokens
    assert describe(model).macs() - describe(pooled).macs() == (tokens - 1) * 7 * 192


@pytest.mark.parametrize("name", ["timm-dinov3", "timm-dinov3-gated", "timm-eva02", "timm-whole-mlps"])
def test_an_attention_with_fewer_heads_is_timms_own_other_class(name: str) -> None:
    from timm.layers.attention import AttentionRope
    from timm.models.eva import EvaAttention

    whole = fresh_elastic(by_name(name))
    sites = [(index, site) for index, site in enumerate(whole.anatomy.sites) if site.kind == "heads"]
    for model in (whole.at(sparsity=0.6), whole.cut(sparsity=0.6)):
        for index, site in sites:
            width, attention = whole.plan(sparsity=0.6).widths[index], model.get_submodule(site.name)
            assert type(attention) is (EvaAttention if width == site.units else AttentionRope)
            assert not list(attention.named_parameters(recurse=False)) or width == site.units
            if width < site.units:
                stock = AttentionRope(32, num_heads=width, attn_head_dim=8)
                assert {vars(stock)[key] for key in vars(stock) if key.endswith("dim")} == {8, 8 * width}
                numbers = {key for key, value in vars(stock).items() if type(value) is int} - {"num_prefix_tokens"}
                assert {key: vars(attention)[key] for key in numbers} == {key: vars(stock)[key] for key in numbers}
    assert all(type(whole.model.get_submodule(site.name)) is EvaAttention for _, site in sites)


def test_biases_beside_their_layer_are_cut_with_it() -> None:
    whole = elastic("timm-eva02")
    site = next(site for site in whole.anatomy.sites if site.kind == "heads")
    (producer,) = site.producers
    assert producer.biases == ("blocks.0.attn.q_bias", None, "blocks.0.attn.v_bias")
    assert producer.parameters == 8 * (3 * 32 + 2)


@pytest.mark.parametrize(
    ("name", "note"), [("timm-whole-heads", "heads all stay: a norm"), ("timm-whole-mlps", "MLPs stay whole: a norm")]
)
def test_what_stays_whole_is_said(name: str, note: str) -> None:
    (said,) = describe(by_name(name).model()).notes
    assert note in said and said.endswith(".")


def test_other_specimens_have_no_notes() -> None:
    assert all(not describe(one.model()).notes for one in TIMM if len(one.kinds) == 2)


REFUSED = {
    "eva02_base_patch16_clip_224": r"Nothing can leave this Eva\. Its heads all stay.*Its MLPs stay whole",
    # Before 1.0.30, its attention isn't known either.
    "vit_small_patch16_rope_mixed_224": r"rope is a RotaryEmbeddingMixed|num_kv_heads is None",
    "vit_tiny_r_s16_p8_224": r"patch_embed is a HybridEmbed",
    "vit_dwee_patch16_reg1_gap_256": r"blocks\.0\.attn\.lambda_q1",
    "vit_small_patch16_18x2_224": r"is of no family",
}


@pytest.mark.parametrize("architecture", REFUSED)
def test_refused(architecture: str) -> None:
    with pytest.raises(UnsupportedModelError, match=REFUSED[architecture]):
        describe(make(architecture))


@pytest.mark.parametrize(
    ("name", "path", "other"),
    [
        ("timm-vit", "blocks.1.attn", nn.Identity),
        ("timm-dinov3", "blocks.1.attn", nn.Identity),
        ("timm-registers", "blocks.1.mlp", nn.Identity),
    ],
)
def test_another_class_with_the_same_parts_is_named(name: str, path: str, other: type[nn.Module]) -> None:
    model = by_name(name).model()
    stranger = type("Stranger", (type(model.get_submodule(path)),), {})
    model.get_submodule(path).__class__ = stranger
    with pytest.raises(UnsupportedModelError, match=rf"doesn't know a .*Stranger as {path}"):
        describe(model)


@pytest.mark.parametrize("name", ["timm-vit", "timm-dinov3"])
def test_blocks_without_their_patches(name: str) -> None:
    with pytest.raises(UnsupportedModelError, match=r"no embeddings of positions or patches"):
        describe(by_name(name).model().blocks)


def test_no_known_image_size() -> None:
    model = by_name("timm-vit").model()
    model.patch_embed.num_patches = None
    with pytest.raises(UnsupportedModelError, match=r"no image size.*Pass img_size"):
        describe(model)


def test_a_model_around_it() -> None:
    """As transformers' wrapper and others keep it: under a name of its own, with heads beside it."""
    inner = by_name("timm-vit").model()
    model = nn.ModuleDict({"trunk": inner, "head": nn.Linear(32, 7)})
    mine, its = describe(model), describe(inner)
    assert [site.name for site in mine.sites] == [f"trunk.{site.name}" for site in its.sites]
    assert mine.native_tokens == its.native_tokens
    assert mine.macs() == its.macs() + 7 * 32


def test_pretrained_sizes() -> None:
    """As published: what the paper counts for DINOv3 ViT-H+/16."""
    huge = describe(make("vit_huge_plus_patch16_dinov3", num_classes=0))
    assert round(huge.prunable_parameters / 1e6) == 839 and round(huge.total_parameters / 1e6, 1) == 840.5
    small = describe(make("vit_small_patch14_dinov2", num_classes=0))
    assert (small.units, small.native_tokens) == (12 * (1536 + 6), 37**2 + 1)
    giant = describe(make("vit_giant_patch14_reg4_dinov2", num_classes=0))
    assert giant.sites[1].units == 4096
