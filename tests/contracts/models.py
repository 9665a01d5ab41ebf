"""Tiny random models, one for each layout that a family knows."""

from contracts.specimen import HEADS, LAYERS, NEURONS, WIDTH, WORDS, Specimen
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

SPECIMENS = (
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
)

TEXT = tuple(specimen for specimen in SPECIMENS if specimen.reads_text)
IMAGES = tuple(specimen for specimen in SPECIMENS if not specimen.reads_text)


def by_name(name: str) -> Specimen:
    return next(specimen for specimen in SPECIMENS if specimen.name == name)
