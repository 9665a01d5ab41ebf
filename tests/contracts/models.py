"""Tiny random models, one for each layout that a family knows."""

from contracts.specimen import HEADS, LAYERS, NEURONS, WIDTH, WORDS, PatchSpecimen, Specimen
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
    ElectraConfig,
    ElectraModel,
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

SPECIMENS = (
    Specimen("bert", BertModel, BertConfig, _TEXT, "bert"),
    Specimen("bert-classifier", BertForSequenceClassification, BertConfig, {**_TEXT, "num_labels": 3}, "bert"),
    Specimen("roberta", RobertaModel, RobertaConfig, _ROBERTA, "bert", (), 1, True),
    Specimen("xlm-roberta", XLMRobertaModel, XLMRobertaConfig, _ROBERTA, "bert", (), 1, True),
    Specimen("camembert", CamembertModel, CamembertConfig, _ROBERTA, "bert", (), 1, True),
    Specimen("electra", ElectraModel, ElectraConfig, {**_TEXT, "embedding_size": 16}, "bert"),
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

TEXT = tuple(specimen for specimen in SPECIMENS if specimen.reads_text)
IMAGES = tuple(specimen for specimen in SPECIMENS if not specimen.reads_text)


def by_name(name: str) -> Specimen:
    return next(specimen for specimen in SPECIMENS if specimen.name == name)
