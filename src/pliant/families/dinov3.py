"""Hugging Face DINOv3 ViT: rotary positions, registers, no bias for keys; a plain MLP or a gated one (S+, H+, 7B)."""

from dataclasses import replace

from torch import nn

from pliant.families import vit
from pliant.families.layout import Family, Layout, Neurons, Surroundings
from pliant.families.parts import Gives, Has

_MODELING = "transformers.models.dinov3_vit.modeling_dinov3_vit"

PLAIN = Layout(
    layers=frozenset({f"{_MODELING}.DINOv3ViTLayer"}),
    heads=replace(vit.HEADS, counts=("attention.num_heads",)),
    neurons=Neurons("mlp", ("mlp.up_proj",), "mlp.down_proj", sublayer=Gives("mlp")),
    passive=frozenset({"norm1", "layer_scale1", "drop_path", "norm2", "layer_scale2", "mlp.act_fn"}),
    # A gated MLP without its gate has the parts of a plain one.
    classes=(Has("mlp", frozenset({f"{_MODELING}.DINOv3ViTMLP"})),),
)

GATED = replace(
    PLAIN,
    neurons=Neurons("mlp", ("mlp.gate_proj", "mlp.up_proj"), "mlp.down_proj", sublayer=Gives("mlp")),
    classes=(Has("mlp", frozenset({f"{_MODELING}.DINOv3ViTGatedMLP"})),),
)


def surroundings(model: nn.Module, layers: tuple[str, ...]) -> Surroundings:
    """Count as for a ViT; only the rotary embeddings know how many patches a full-size image has."""
    sides = ("num_patches_h", "num_patches_w")
    grids = [
        tuple(getattr(module, side, 0) for side in sides)
        for name, module in model.named_modules()
        if name.endswith("rope_embeddings")
    ]
    height, width = grids[0] if grids else (0, 0)
    return vit.around(model, layers, height * width)


FAMILY = Family(
    "dinov3",
    "DINOv3 ViT-S, S+, B, L, H+ and 7B",
    (PLAIN, GATED),
    "cls",
    surroundings,
    "pooled+tokens",
    output="norm",
)
