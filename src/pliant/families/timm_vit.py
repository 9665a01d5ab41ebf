"""timm's VisionTransformer: AugReg, DeiT, DeiT-III, DINOv2, SigLIP and SigLIP2, CLIP's image towers."""

from pliant.families.layout import Family, Heads
from pliant.families.parts import Gives, Has, Packs
from pliant.families.timm_layers import IDENTITY, Part, layouts, surroundings

_ATTENTION = Has("attn", frozenset({"timm.layers.attention.Attention"}))
_INSIDE = frozenset({"attn.q_norm", "attn.k_norm", "attn.attn_drop", "attn.norm", "attn.proj_drop"})


_HEADS = Heads(
    name="attn",
    projections=(Packs("attn.qkv", 3),),
    output="attn.proj",
    head_dim="attn.head_dim",
    # The forward reshapes to attn_dim.
    counts=("attn.num_heads", "attn.attn_dim"),
    sublayer=Gives("attn"),
)

_ATTENTIONS = (
    Part(_HEADS, _INSIDE, (_ATTENTION, Has("attn.norm", IDENTITY))),
    Part(
        None,
        _INSIDE | {"attn.qkv", "attn.proj"},
        (_ATTENTION,),
        "Its heads all stay: a norm over all of them changes with each that leaves.",
        frozenset({"attn.proj"}),
    ),
)

LAYOUTS = layouts(
    layers=frozenset({f"timm.models.vision_transformer.{name}" for name in ("Block", "ResPostBlock")}),
    attentions=_ATTENTIONS,
    around=frozenset({"norm1", "ls1", "drop_path1", "norm2", "ls2", "drop_path2"}),
)

FAMILY = Family(
    "timm_vit", "timm's ViT: AugReg, DeiT, DeiT-III, DINOv2, SigLIP", LAYOUTS, "cls", surroundings, output="norm"
)
