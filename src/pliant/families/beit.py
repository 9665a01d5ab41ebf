"""Hugging Face BEiT: ViT's layout with LayerScale, and with or without relative positions of each layer's own."""

from dataclasses import replace

from torch import nn

from pliant.errors import UnsupportedModelError
from pliant.families import vit
from pliant.families.layout import Family, Surroundings

PLAIN = replace(
    vit.LAYOUT,
    layers=frozenset({"transformers.models.beit.modeling_beit.BeitLayer"}),
    passive=vit.LAYOUT.passive | {"drop_path"},
    parameters=frozenset({"lambda_1", "lambda_2"}),
)

RELATIVE = replace(
    PLAIN,
    # The layer adds the biases outside of its attention, and can't do that for no head at all: one has to stay.
    heads=replace(vit.HEADS, tables=("relative_position_bias.relative_position_bias_table",), sublayer=None),
    passive=PLAIN.passive | {"relative_position_bias"},
)


def surroundings(model: nn.Module, layers: tuple[str, ...]) -> Surroundings:
    """Count as for a ViT.

    Raises:
        UnsupportedModelError: All layers share one table of relative positions.
    """
    for name, module in model.named_modules():
        if name.endswith("shared_position_bias"):
            raise UnsupportedModelError(
                f"{name}, a {type(module).__name__}, has a column for every head of every layer at once, so no layer "
                "can lose a head of its own. Supported: BEiT whose layers have relative positions of their own, as "
                "those fine-tuned on ImageNet do, or none."
            )
    return vit.surroundings(model, layers)


FAMILY = Family("beit", "BEiT", (PLAIN, RELATIVE), "pooler", surroundings)
