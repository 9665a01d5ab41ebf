"""Tiny random models, one for each layout that a family knows."""

import pytest
from contracts.specimen import HEADS, LAYERS, NEURONS, WIDTH, WORDS, PatchSpecimen, Specimen
from contracts.timm_models import TIMM
from transformers import (
    BeitConfig,
    BeitModel,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    CamembertConfig,
    CamembertModel,
    CLIPTextConfig,
    CLIPTextModelWithProjection,
    CLIPVisionConfig,
    CLIPVisionModel,
    DeiTConfig,
    DeiTModel,
    Dinov2Config,
    Dinov2Model,
    Dinov2WithRegistersConfig,
    Dinov2WithRegistersModel,
    DINOv3ViTConfig,
    DINOv3ViTModel,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    Gemma3TextConfig,
    Gemma3TextModel,
    GteConfig,
    GteModel,
    LlamaConfig,
    LlamaModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    NomicBertConfig,
    NomicBertModel,
    Qwen2Config,
    Qwen2Model,
    Qwen3Config,
    Qwen3Model,
    RobertaConfig,
    RobertaModel,
    Siglip2TextConfig,
    Siglip2TextModel,
    Siglip2VisionConfig,
    Siglip2VisionModel,
    SiglipTextConfig,
    SiglipTextModel,
    SiglipVisionConfig,
    SiglipVisionModel,
    ViTConfig,
    ViTModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

_TEXT = dict(
    vocab_size=WORDS,
    hidden_size=WIDTH,
    num_hidden_layers=LAYERS,
    num_attention_heads=HEADS,
    intermediate_size=NEURONS,
    max_position_embeddings=40,
)
_IMAGE = dict(
    hidden_size=WIDTH,
    num_hidden_layers=LAYERS,
    num_attention_heads=HEADS,
    intermediate_size=NEURONS,
    image_size=24,
    patch_size=8,
)
_DINO = dict(
    hidden_size=WIDTH,
    num_hidden_layers=LAYERS,
    num_attention_heads=HEADS,
    mlp_ratio=2,
    image_size=28,
    patch_size=7,
    layerscale_value=0.7,
)

_DINOV3 = {**_IMAGE, "image_size": 28, "patch_size": 7, "num_register_tokens": 3}
_BEIT = {**_IMAGE, "layer_scale_init_value": 0.7}
_CLIP_TEXT = {**_TEXT, "projection_dim": 20, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0}
_SIGLIP_TEXT = {**_TEXT, "projection_size": 20, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0}
_NAFLEX = {**{key: value for key, value in _IMAGE.items() if key != "image_size"}, "num_patches": 16}

_ROBERTA = {**_TEXT, "pad_token_id": 1}
_DISTILBERT = dict(
    vocab_size=WORDS, dim=WIDTH, n_layers=LAYERS, n_heads=HEADS, hidden_dim=NEURONS, max_position_embeddings=40
)
# The windows are shorter than the texts.
_MODERNBERT = {
    **_TEXT,
    "layer_types": ["full_attention", "sliding_attention"],
    "local_attention": 6,
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0),
}
_GROUPED = {**_TEXT, "num_key_value_heads": 2, "pad_token_id": 0}
_SLIDING = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4}

TRANSFORMERS = (
    Specimen("bert", BertModel, BertConfig, _TEXT, "bert"),
    Specimen("bert-classifier", BertForSequenceClassification, BertConfig, {**_TEXT, "num_labels": 3}, "bert"),
    Specimen("roberta", RobertaModel, RobertaConfig, _ROBERTA, "bert", (), 1, True),
    Specimen("xlm-roberta", XLMRobertaModel, XLMRobertaConfig, _ROBERTA, "bert", (), 1, True),
    Specimen("camembert", CamembertModel, CamembertConfig, _ROBERTA, "bert", (), 1, True),
    Specimen("electra", ElectraModel, ElectraConfig, {**_TEXT, "embedding_size": 16}, "bert"),
    Specimen("distilbert", DistilBertModel, DistilBertConfig, _DISTILBERT, "distilbert"),
    Specimen("mpnet", MPNetModel, MPNetConfig, {**_ROBERTA, "attn_implementation": "eager"}, "mpnet", (), 1, True),
    Specimen("modernbert", ModernBertModel, ModernBertConfig, _MODERNBERT, "modernbert", (), 0, True, rotary=True),
    Specimen("nomic-bert", NomicBertModel, NomicBertConfig, _TEXT, "nomic_bert", (), 0, True, rotary=True),
    Specimen("gte", GteModel, GteConfig, {**_TEXT, "pad_token_id": 0}, "gte", (), 0, True, rotary=True),
    # The width of all heads together is another than the model's, as in Qwen3-Embedding 0.6B.
    Specimen(
        "qwen3",
        Qwen3Model,
        Qwen3Config,
        {**_GROUPED, "head_dim": 12},
        "qwen3",
        counts_positions_itself=True,
        groups=2,
        head_dim=12,
        rotary=True,
    ),
    Specimen(
        "qwen2",
        Qwen2Model,
        Qwen2Config,
        {**_GROUPED, **_SLIDING, "use_sliding_window": True},
        "llama",
        counts_positions_itself=True,
        groups=2,
        rotary=True,
    ),
    # All queries share one key and one value, so the attention is one unit.
    Specimen(
        "llama-biases",
        LlamaModel,
        LlamaConfig,
        {**_GROUPED, "num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True, "use_cache": False},
        "llama",
        counts_positions_itself=True,
        groups=1,
        rotary=True,
    ),
    Specimen(
        "embedding-gemma",
        Gemma3TextModel,
        Gemma3TextConfig,
        {**_GROUPED, **_SLIDING, "head_dim": 8, "query_pre_attn_scalar": 8, "use_bidirectional_attention": True},
        "gemma3",
        counts_positions_itself=True,
        groups=2,
        rotary=True,
    ),
    Specimen("vit", ViTModel, ViTConfig, _IMAGE, "vit", ((24, 24), (16, 32), (8, 8)), interpolates=True),
    Specimen(
        "vit-no-qkv-bias",
        ViTModel,
        ViTConfig,
        {**_IMAGE, "qkv_bias": False},
        "vit",
        ((24, 24), (32, 16)),
        interpolates=True,
    ),
    Specimen("deit", DeiTModel, DeiTConfig, _IMAGE, "vit", ((24, 24), (16, 32)), interpolates=True),
    Specimen("dinov2", Dinov2Model, Dinov2Config, _DINO, "dinov2", ((28, 28), (14, 35), (7, 7))),
    Specimen(
        "dinov2-gated", Dinov2Model, Dinov2Config, {**_DINO, "use_swiglu_ffn": True}, "dinov2", ((28, 28), (21, 14))
    ),
    Specimen(
        "dinov2-registers",
        Dinov2WithRegistersModel,
        Dinov2WithRegistersConfig,
        {**_DINO, "num_register_tokens": 3, "use_swiglu_ffn": True},
        "dinov2",
        ((28, 28), (14, 35)),
    ),
    Specimen("dinov3", DINOv3ViTModel, DINOv3ViTConfig, _DINOV3, "dinov3", ((28, 28), (14, 35), (7, 7))),
    Specimen(
        "dinov3-gated",
        DINOv3ViTModel,
        DINOv3ViTConfig,
        {**_DINOV3, "use_gated_mlp": True, "query_bias": False, "value_bias": False},
        "dinov3",
        ((28, 28), (21, 14)),
    ),
    Specimen(
        "siglip-vision",
        SiglipVisionModel,
        SiglipVisionConfig,
        _IMAGE,
        "siglip",
        ((24, 24), (16, 32)),
        interpolates=True,
    ),
    Specimen("siglip-text", SiglipTextModel, SiglipTextConfig, _SIGLIP_TEXT, "siglip"),
    PatchSpecimen(
        "siglip2-vision", Siglip2VisionModel, Siglip2VisionConfig, _NAFLEX, "siglip", ((32, 32), (16, 40), (8, 24))
    ),
    Specimen("siglip2-text", Siglip2TextModel, Siglip2TextConfig, _SIGLIP_TEXT, "siglip"),
    Specimen("clip-vision", CLIPVisionModel, CLIPVisionConfig, _IMAGE, "clip", ((24, 24), (16, 32)), interpolates=True),
    Specimen("clip-text", CLIPTextModelWithProjection, CLIPTextConfig, _CLIP_TEXT, "clip"),
    Specimen(
        "beit", BeitModel, BeitConfig, {**_BEIT, "use_absolute_position_embeddings": True}, "beit", ((24, 24), (16, 32))
    ),
    Specimen(
        "beit-relative",
        BeitModel,
        BeitConfig,
        {**_BEIT, "use_relative_position_bias": True},
        "beit",
        ((24, 24), (16, 32), (8, 8)),
    ),
)

SPECIMENS = (*TRANSFORMERS, *TIMM)

TEXT = tuple(specimen for specimen in SPECIMENS if specimen.reads_text)
IMAGES = tuple(specimen for specimen in SPECIMENS if not specimen.reads_text)

specimens = pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda specimen: specimen.name)
"""Runs a test on every one of them."""


def by_name(name: str) -> Specimen:
    return next(specimen for specimen in SPECIMENS if specimen.name == name)
