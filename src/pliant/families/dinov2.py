"""Hugging Face DINOv2, with its plain MLP and its gated one (the giant's)."""

from dataclasses import replace

from pliant.families.layout import Family, Layout
from pliant.families.vit import surroundings

_AROUND = frozenset({"norm1", "layer_scale1", "drop_path", "norm2", "layer_scale2"})

PLAIN = Layout(
    layers=frozenset({"transformers.models.dinov2.modeling_dinov2.Dinov2Layer"}),
    attention="attention",
    projections=("attention.q_proj", "attention.k_proj", "attention.v_proj"),
    attention_output="attention.o_proj",
    head_dim="attention.head_dim",
    head_counts=("attention.num_attention_heads",),
    mlp="mlp",
    mlp_inputs=("mlp.fc1",),
    mlp_output="mlp.fc2",
    passive=_AROUND | {"mlp.activation_fn"},
)

GATED = replace(
    PLAIN, mlp_inputs=("mlp.gate_proj", "mlp.up_proj"), mlp_output="mlp.down_proj", passive=_AROUND | {"mlp.act_fn"}
)

FAMILY = Family("dinov2", "DINOv2 ViT-S, B, L and g", (PLAIN, GATED), "cls", surroundings)
