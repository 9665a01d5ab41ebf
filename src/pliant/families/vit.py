"""Hugging Face ViT and DeiT, whose layers are the same."""

from torch import nn

from pliant.families.layout import Family, Layout, Surroundings

LAYOUT = Layout(
    layers=frozenset(
        {
            "transformers.models.vit.modeling_vit.ViTLayer",
            "transformers.models.deit.modeling_deit.DeiTLayer",
        }
    ),
    attention="attention",
    projections=("attention.q_proj", "attention.k_proj", "attention.v_proj"),
    attention_output="attention.o_proj",
    head_dim="attention.head_dim",
    head_counts=("attention.num_attention_heads",),
    mlp="mlp",
    mlp_inputs=("mlp.fc1",),
    mlp_output="mlp.fc2",
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
