"""Hugging Face CLIP: its vision tower and its text tower, each by itself."""

from torch import nn

from pliant.families.layout import Family, Heads, Layout, Neurons, Surroundings
from pliant.families.parts import Gives

LAYOUT = Layout(
    layers=frozenset({"transformers.models.clip.modeling_clip.CLIPEncoderLayer"}),
    heads=Heads(
        name="self_attn",
        projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        output="self_attn.out_proj",
        head_dim="self_attn.head_dim",
        counts=("self_attn.num_heads",),
        sublayer=Gives("self_attn", returns=2),
    ),
    neurons=Neurons("mlp", ("mlp.fc1",), "mlp.fc2", sublayer=Gives("mlp")),
    passive=frozenset({"layer_norm1", "layer_norm2", "mlp.activation_fn"}),
)


def surroundings(model: nn.Module, layers: tuple[str, ...]) -> Surroundings:
    """Count the patch projection for each patch, attention that pools by its tokens, projections and heads once."""
    native = prefix = per_token = once = 0
    for name, module in model.named_modules():
        if name.startswith(layers):
            continue
        # Of an image, the class token has a position too.
        if name.endswith("position_embedding") and isinstance(module, nn.Embedding):
            native = module.num_embeddings
        prefix += sum(key == "class_embedding" for key, _ in module.named_parameters(recurse=False))
        if name.endswith("patch_embedding"):
            per_token += module.get_parameter("weight").numel()
        elif isinstance(module, nn.MultiheadAttention):
            # One learnt query looks at every token's key and value; the output projection is a linear layer inside.
            per_token += 2 * module.embed_dim * (module.embed_dim + 1)
            once += module.embed_dim**2
        elif isinstance(module, nn.Linear):
            once += module.weight.numel()
    return Surroundings(native, per_token, once - prefix * per_token)


FAMILY = Family("clip", "CLIP's vision and text towers", (LAYOUT,), "pooler", surroundings)
