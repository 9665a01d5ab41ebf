"""Tiny random models, one for each layout that a family knows."""

from contracts.specimen import HEADS, LAYERS, NEURONS, WIDTH, WORDS, Specimen
from contracts.timm_models import TIMM
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    CamembertConfig,
    CamembertModel,
    DeiTConfig,
    DeiTModel,
    Dinov2Config,
    Dinov2Model,
    ElectraConfig,
    ElectraModel,
    RobertaConfig,
    RobertaModel,
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

_ROBERTA = {**_TEXT, "pad_token_id": 1}

TRANSFORMERS = (
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
)

SPECIMENS = (*TRANSFORMERS, *TIMM)

TEXT = tuple(specimen for specimen in SPECIMENS if specimen.reads_text)
IMAGES = tuple(specimen for specimen in SPECIMENS if not specimen.reads_text)


def by_name(name: str) -> Specimen:
    return next(specimen for specimen in SPECIMENS if specimen.name == name)
