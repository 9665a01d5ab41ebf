"""timm's Eva: DINOv3, EVA and EVA-02, the Perception Encoder, and ViTs with rotary positions."""

from torch import nn

from pliant.errors import UnsupportedModelError
from pliant.families import timm_layers
from pliant.families.layout import Family, Heads, Surroundings
from pliant.families.parts import Becomes, Gives, Packs
from pliant.families.timm_layers import Part, all_heads, layouts, some_heads

_STOCK, _ROPE = "timm.models.eva.EvaAttention", "timm.layers.attention.AttentionRope"
_SEPARATE = ("attn.q_proj", "attn.k_proj", "attn.v_proj")
_BIASES = ("attn.q_bias", None, "attn.v_bias")

# EvaAttention reshapes what its heads found to the width of its input. AttentionRope is the same but for that: it
# reshapes to `attn_dim`. It also has grouped keys and values, of which there is one to each query here.
_NARROW = Becomes(
    "attn", _ROPE, counts=("num_kv_heads",), widths=("attn_dim", "kv_dim"), constants=(("num_kv_groups", 1),)
)


def _attention(
    kind: str, projections: tuple[str | Packs, ...], counts: tuple[str, ...], becomes: Becomes | None
) -> Part:
    heads = Heads(
        name="attn",
        projections=projections,
        output="attn.proj",
        head_dim="attn.head_dim",
        counts=counts,
        sublayer=Gives("attn"),
        becomes=becomes,
    )
    return some_heads(heads, frozenset({kind}))


_COUNTS = ("attn.num_heads",)
_ROPE_COUNTS = ("attn.num_heads", "attn.attn_dim", "attn.num_kv_heads", "attn.kv_dim")

_ATTENTIONS = (
    _attention(_STOCK, (Packs("attn.qkv", 3, _BIASES),), _COUNTS, _NARROW),
    _attention(_STOCK, (Packs("attn.qkv", 3),), _COUNTS, _NARROW),
    _attention(_STOCK, _SEPARATE, _COUNTS, _NARROW),
    _attention(_ROPE, (Packs("attn.qkv", 3),), _ROPE_COUNTS, None),
    _attention(_ROPE, _SEPARATE, _ROPE_COUNTS, None),
    all_heads(frozenset({"attn.qkv", "attn.q_bias", "attn.v_bias", *_SEPARATE}), frozenset({_STOCK, _ROPE})),
)

LAYOUTS = layouts(
    layers=frozenset({f"timm.models.eva.{name}" for name in ("EvaBlock", "EvaBlockPostNorm")}),
    attentions=_ATTENTIONS,
    around=frozenset({"norm1", "drop_path1", "norm2", "drop_path2"}),
    parameters=frozenset({"gamma_1", "gamma_2"}),
)


def surroundings(model: nn.Module, layers: tuple[str, ...]) -> Surroundings:
    """Count what lies around the blocks.

    Raises:
        UnsupportedModelError: Each head has rotary positions of its own.
    """
    for path, module in model.named_modules():
        if type(module).__name__ == "RotaryEmbeddingMixed":
            raise UnsupportedModelError(
                f"{path} is a RotaryEmbeddingMixed, which holds positions for each head of all layers in one table; "
                "no head can leave it. Use a model whose heads share their positions."
            )
    return timm_layers.surroundings(model, layers)


FAMILY = Family(
    "timm_eva", "timm's Eva: DINOv3, EVA-02, Perception Encoder", LAYOUTS, "cls", surroundings, output="norm"
)
