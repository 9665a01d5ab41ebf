"""timm's VisionTransformer: AugReg, DeiT, DeiT-III, DINOv2, SigLIP and SigLIP2, CLIP's image towers."""

from pliant.families.layout import Family, Heads
from pliant.families.parts import Gives, Packs
from pliant.families.timm_layers import all_heads, layouts, some_heads, surroundings

_ATTENTION = frozenset({"timm.layers.attention.Attention"})

_HEADS = Heads(
    name="attn",
    projections=(Packs("attn.qkv", 3),),
    output="attn.proj",
    head_dim="attn.head_dim",
    # The forward reshapes to attn_dim.
    counts=("attn.num_heads", "attn.attn_dim"),
    sublayer=Gives("attn"),
)

LAYOUTS = layouts(
    layers=frozenset({f"timm.models.vision_transformer.{name}" for name in ("Block", "ResPostBlock")}),
    attentions=(some_heads(_HEADS, _ATTENTION), all_heads(frozenset({"attn.qkv"}), _ATTENTION)),
    around=frozenset({"norm1", "ls1", "drop_path1", "norm2", "ls2", "drop_path2"}),
)

FAMILY = Family(
    "timm_vit", "timm's ViT: AugReg, DeiT, DeiT-III, DINOv2, SigLIP", LAYOUTS, "cls", surroundings, output="norm"
)
