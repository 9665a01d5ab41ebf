"""Hugging Face DINOv2, with and without registers: ViT's layout with LayerScale, and a plain or a gated MLP (g)."""

from dataclasses import replace

from pliant.families import vit
from pliant.families.layout import Family, Neurons
from pliant.families.parts import Gives

_AROUND = frozenset({"norm1", "layer_scale1", "drop_path", "norm2", "layer_scale2"})

PLAIN = replace(
    vit.LAYOUT,
    layers=frozenset(
        {
            "transformers.models.dinov2.modeling_dinov2.Dinov2Layer",
            "transformers.models.dinov2_with_registers.modeling_dinov2_with_registers.Dinov2WithRegistersLayer",
        }
    ),
    passive=_AROUND | {"mlp.activation_fn"},
)

GATED = replace(
    PLAIN,
    neurons=Neurons("mlp", ("mlp.gate_proj", "mlp.up_proj"), "mlp.down_proj", sublayer=Gives("mlp")),
    passive=_AROUND | {"mlp.act_fn"},
)

FAMILY = Family(
    "dinov2",
    "DINOv2 ViT-S, B, L and g, with and without registers",
    (PLAIN, GATED),
    "cls",
    vit.surroundings,
    "pooled+tokens",
    output="layernorm",
)
