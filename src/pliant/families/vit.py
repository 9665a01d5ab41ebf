"""Hugging Face ViT and DeiT, whose layers are the same."""

from torch import nn

from pliant.families.layout import Family, Gives, Heads, Layout, Neurons, Surroundings

LAYOUT = Layout(
    layers=frozenset(
        {
            "transformers.models.vit.modeling_vit.ViTLayer",
            "transformers.models.deit.modeling_deit.DeiTLayer",
        }
    ),
    heads=Heads(
        name="attention",
        projections=("attention.q_proj", "attention.k_proj", "attention.v_proj"),
        output="attention.o_proj",
        head_dim="attention.head_dim",
        counts=("attention.num_attention_heads",),
        sublayer=Gives("attention", returns=2),
    ),
    neurons=Neurons("mlp", ("mlp.fc1",), "mlp.fc2", sublayer=Gives("mlp")),
    passive=frozenset({"layernorm_before", "layernorm_after", "dropout", "mlp.activation_fn"}),
)


def surroundings(model: nn.Module, layers: tuple[str, ...]) -> Surroundings:
    """Count the patch projection for each patch, and poolers and classifiers once."""
    patches = prefix = per_patch = once = 0
    for name, module in model.named_modules():
        if name.startswith(layers):
            continue
        if name.endswith("patch_embeddings"):
            patches = int(getattr(module, "num_patches"))  # noqa: B009 - a family's attribute, unknown to nn.Module
        if name.endswith("embeddings"):
            prefix += sum(key in ("cls_token", "distillation_token") for key, _ in module.named_parameters())
        if isinstance(module, nn.Conv2d):
            per_patch += module.weight.numel()
        if isinstance(module, nn.Linear):
            once += module.weight.numel()
    return Surroundings(patches + prefix, per_patch, once - prefix * per_patch)


FAMILY = Family("vit", "ViT, DeiT", (LAYOUT,), "cls", surroundings)
