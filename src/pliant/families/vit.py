"""Hugging Face ViT and DeiT, whose layers are the same."""

from torch import nn

from pliant.families.layout import Family, Heads, Layout, Neurons, Surroundings
from pliant.families.parts import Gives

HEADS = Heads(
    name="attention",
    projections=("attention.q_proj", "attention.k_proj", "attention.v_proj"),
    output="attention.o_proj",
    head_dim="attention.head_dim",
    counts=("attention.num_attention_heads",),
    sublayer=Gives("attention", returns=2),
)

LAYOUT = Layout(
    layers=frozenset(
        {
            "transformers.models.vit.modeling_vit.ViTLayer",
            "transformers.models.deit.modeling_deit.DeiTLayer",
        }
    ),
    heads=HEADS,
    neurons=Neurons("mlp", ("mlp.fc1",), "mlp.fc2", sublayer=Gives("mlp")),
    passive=frozenset({"layernorm_before", "layernorm_after", "dropout", "mlp.activation_fn"}),
)

_PREFIX = ("cls_token", "distillation_token", "register_tokens")


def surroundings(model: nn.Module, layers: tuple[str, ...]) -> Surroundings:
    """Count the patch projection for each patch, and poolers and classifiers once."""
    counts = [getattr(m, "num_patches", 0) for name, m in model.named_modules() if name.endswith("patch_embeddings")]
    return around(model, layers, counts[0] if counts else 0)


def around(model: nn.Module, layers: tuple[str, ...], patches: int) -> Surroundings:
    """Count what lies around the layers of a model whose full-size image has `patches` patches."""
    prefix = per_patch = once = 0
    for name, module in model.named_modules():
        if name.startswith(layers):
            continue
        if name.endswith("embeddings"):
            tokens = [parameter for key, parameter in module.named_parameters(recurse=False) if key in _PREFIX]
            prefix += sum(parameter.shape[1] for parameter in tokens)
        # A language model's head, which BEiT has for its visual words, reads every patch.
        if isinstance(module, nn.Conv2d) or name.endswith("lm_head"):
            per_patch += module.get_parameter("weight").numel()
        elif isinstance(module, nn.Linear):
            once += module.weight.numel()
    return Surroundings(patches + prefix if patches else 0, per_patch, once - prefix * per_patch)


FAMILY = Family("vit", "ViT, DeiT", (LAYOUT,), "cls", surroundings, output="layernorm")
