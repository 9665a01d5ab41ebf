"""The named encoders are as large as their checkpoints, and cost no memory."""

import importlib.util
import sys

import pytest

from pliant.errors import MissingExtraError
from pliant.families import ZOO, Encoder

# All parameters of each checkpoint: of its encoder alone, with the pooler where it has one, without any classifier.
PUBLISHED = {
    "facebook/dinov3-vits16-pretrain-lvd1689m": 21_596_544,
    "facebook/dinov3-vits16plus-pretrain-lvd1689m": 28_692_864,
    "facebook/dinov3-vitb16-pretrain-lvd1689m": 85_660_416,
    "facebook/dinov3-vitl16-pretrain-lvd1689m": 303_129_600,
    "facebook/dinov3-vith16plus-pretrain-lvd1689m": 840_592_640,
    "facebook/dinov3-vit7b16-pretrain-lvd1689m": 6_716_035_072,
    "facebook/dinov2-small": 22_056_576,
    "facebook/dinov2-base": 86_580_480,
    "facebook/dinov2-large": 304_368_640,
    "facebook/dinov2-giant": 1_136_480_768,
    "facebook/deit-base-patch16-224": 86_389_248,
    "timm/deit3_small_patch16_224.fb_in1k": 21_674_496,
    "timm/deit3_base_patch16_224.fb_in1k": 85_816_320,
    "timm/deit3_large_patch16_224.fb_in1k": 303_349_760,
    "timm/deit3_huge_patch14_224.fb_in1k": 630_845_440,
    "timm/vit_small_patch16_224.augreg_in21k": 21_665_664,
    "timm/vit_base_patch16_224.augreg_in21k": 85_798_656,
    "timm/vit_large_patch16_224.augreg_in21k": 303_301_632,
    "google/siglip2-base-patch16-224": 92_884_224,
    "google/siglip2-large-patch16-256": 315_956_224,
    "google/siglip2-so400m-patch14-224": 427_680_704,
    "sentence-transformers/all-MiniLM-L6-v2": 22_713_216,
    "BAAI/bge-small-en-v1.5": 33_360_000,
    "BAAI/bge-base-en-v1.5": 109_482_240,
    "BAAI/bge-large-en-v1.5": 335_141_888,
    "intfloat/e5-small-v2": 33_360_000,
    "intfloat/e5-base-v2": 109_482_240,
    "intfloat/e5-large-v2": 335_141_888,
    "intfloat/multilingual-e5-small": 117_653_760,
    "intfloat/multilingual-e5-base": 278_043_648,
    "intfloat/multilingual-e5-large": 559_890_432,
    "Qwen/Qwen3-Embedding-0.6B": 595_776_512,
    "Qwen/Qwen3-Embedding-4B": 4_021_774_336,
    "Qwen/Qwen3-Embedding-8B": 7_567_295_488,
}

# Tokens before the patches: the class, and DINOv3's registers.
PREFIX = {"DINOv3ViTConfig": 5, "SiglipVisionConfig": 0}

without_timm = importlib.util.find_spec("timm") is None
encoders = pytest.mark.parametrize(
    "encoder",
    [
        pytest.param(encoder, marks=pytest.mark.skipif(encoder.library == "timm" and without_timm, reason="needs timm"))
        for encoder in ZOO.values()
    ],
    ids=lambda encoder: encoder.name,
)


def test_each_is_found_by_its_own_name() -> None:
    assert ZOO.keys() == PUBLISHED.keys()
    assert all(name == encoder.name for name, encoder in ZOO.items())


@encoders
def test_as_large_as_published(encoder: Encoder) -> None:
    assert encoder.anatomy().total_parameters == PUBLISHED[encoder.name]


@encoders
def test_no_memory_for_weights(encoder: Encoder) -> None:
    model = encoder.model()
    assert all(parameter.is_meta for parameter in model.parameters())
    assert not model.training


@encoders
def test_its_native_input_is_that_of_its_anatomy(encoder: Encoder) -> None:
    tokens = encoder.anatomy().native_tokens
    if encoder.reads == "text":
        assert tokens == encoder.native
    else:
        patch = 14 if "14" in encoder.name or "dinov2" in encoder.name else 16
        assert tokens == (encoder.native // patch) ** 2 + PREFIX.get(encoder.architecture, 1)


@encoders
def test_most_of_every_layer_can_go(encoder: Encoder) -> None:
    anatomy = encoder.anatomy()
    layers = {site.layer for site in anatomy.sites}
    for kind in ("heads", "neurons"):
        assert {site.layer for site in anatomy.sites if site.kind == kind} == layers
    # What stays is embeddings, norms and heads: much where the vocabulary is large, next to nothing for images.
    share = anatomy.prunable_parameters / anatomy.total_parameters
    assert share > (0.17 if encoder.reads == "text" else 0.88)


def test_dinov3_huge() -> None:
    """The paper's example: all but one of its 840 million parameters are prunable."""
    anatomy = ZOO["facebook/dinov3-vith16plus-pretrain-lvd1689m"].anatomy()
    assert anatomy.prunable_parameters == pytest.approx(839e6, abs=0.5e6)
    assert anatomy.units == 32 * (20 + 5120)


def test_an_anatomy_is_made_once() -> None:
    encoder = ZOO["sentence-transformers/all-MiniLM-L6-v2"]
    assert encoder.anatomy() is encoder.anatomy()


def test_the_zoo_is_read_only() -> None:
    with pytest.raises(TypeError):
        ZOO["mine"] = ZOO["facebook/dinov2-small"]  # pyright: ignore[reportIndexIssue] - that it raises is the point


def test_without_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(MissingExtraError, match=r"timm needs packages .* 'pliant\[timm\]'"):
        ZOO["timm/deit3_small_patch16_224.fb_in1k"].model()
