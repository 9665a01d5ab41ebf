"""Hugging Face DINOv2: ViT's layout with LayerScale around it, and a plain MLP or a gated one (the giant's)."""

from dataclasses import replace

from pliant.families import vit
from pliant.families.layout import Family, Gives, Neurons

_AROUND = frozenset({"norm1", "layer_scale1", "drop_path", "norm2", "layer_scale2"})

PLAIN = replace(
    vit.LAYOUT,
    layers=frozenset({"transformers.models.dinov2.modeling_dinov2.Dinov2Layer"}),
    passive=_AROUND | {"mlp.activation_fn"},
)

GATED = replace(
    PLAIN,
    neurons=Neurons("mlp", ("mlp.gate_proj", "mlp.up_proj"), "mlp.down_proj", sublayer=Gives("mlp")),
    passive=_AROUND | {"mlp.act_fn"},
)

FAMILY = Family("dinov2", "DINOv2 ViT-S, B, L and g", (PLAIN, GATED), "cls", vit.surroundings, "pooled+tokens")
