"""What timm's vision transformers share: how their blocks keep attention and MLPs, and what lies around the blocks."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import nn

from pliant.errors import UnsupportedModelError
from pliant.families.layout import Heads, Layout, Neurons, Surroundings, class_name
from pliant.families.parts import Gives, Has, Packs

_IDENTITY = frozenset({"torch.nn.modules.linear.Identity"})
# What an attention has beside its projections.
_ATTENTION = frozenset({"attn.q_norm", "attn.k_norm", "attn.attn_drop", "attn.norm", "attn.proj_drop"})
_MLP, _PACKED, _GATED = (frozenset({f"timm.layers.mlp.{name}"}) for name in ("Mlp", "GluMlp", "SwiGLU"))
_INSIDE = frozenset({"mlp.act", "mlp.drop1", "mlp.norm", "mlp.drop2"})
_POOLINGS = {"token": "cls", "avg": "mean"}


class Part(NamedTuple):
    """One way in which a block keeps its attention or its MLP.

    Args:
        units: Where its heads or neurons are; None where none can leave.
        passive: Its other modules.
        classes: What some of them must be.
        note: Why no unit can leave.
        whole: What must be there of a sublayer from which no unit can leave.
    """

    units: Heads | Neurons | None
    passive: frozenset[str]
    classes: tuple[Has, ...]
    note: str = ""
    whole: frozenset[str] = frozenset()


def some_heads(heads: Heads, classes: frozenset[str]) -> Part:
    """Return an attention from which heads can leave: it has no norm over all of them.

    Args:
        heads: Where they are.
        classes: Qualified class names of the attention.
    """
    return Part(heads, _ATTENTION, (Has("attn", classes), Has("attn.norm", _IDENTITY)))


def all_heads(projections: frozenset[str], classes: frozenset[str]) -> Part:
    """Return an attention from which no head can leave, for the norm over all of them.

    Args:
        projections: What it may have instead of one another: its projections, and biases beside them.
        classes: Qualified class names of the attention.
    """
    note = "Its heads all stay: a norm over all of them changes with each that leaves."
    output = frozenset({"attn.proj"})
    return Part(None, _ATTENTION | projections | output, (Has("attn", classes),), note, output)


def _mlp(projections: tuple[str | Packs, ...], classes: frozenset[str]) -> Part:
    neurons = Neurons("mlp", projections, "mlp.fc2", sublayer=Gives("mlp"))
    return Part(neurons, _INSIDE, (Has("mlp", classes), Has("mlp.norm", _IDENTITY)))


MLPS = (
    _mlp(("mlp.fc1",), _MLP),
    _mlp((Packs("mlp.fc1", 2),), _PACKED),
    _mlp(("mlp.fc1_g", "mlp.fc1_x"), _GATED),
    Part(
        None,
        _INSIDE | {"mlp.fc1", "mlp.fc1_g", "mlp.fc1_x", "mlp.fc2"},
        (Has("mlp", _MLP | _PACKED | _GATED),),
        "Its MLPs stay whole: a norm over all of their neurons changes with each that leaves.",
        frozenset({"mlp.fc2"}),
    ),
)
"""Plain, gated with packed projections, gated with two; and any of these with a norm over the neurons."""


def layouts(
    layers: frozenset[str],
    attentions: Iterable[Part],
    around: frozenset[str],
    parameters: frozenset[str] = frozenset(),
) -> tuple[Layout, ...]:
    """Return a layout for each attention with each MLP.

    Args:
        layers: Qualified class names of the blocks.
        attentions: The ways in which they keep their attention.
        around: Their modules outside attention and MLP.
        parameters: Names of the parameters that they hold themselves.
    """
    return tuple(
        Layout(
            layers=layers,
            heads=attention.units if isinstance(attention.units, Heads) else None,
            neurons=mlp.units if isinstance(mlp.units, Neurons) else None,
            passive=attention.passive | mlp.passive | around,
            parameters=parameters,
            notes=tuple(filter(None, (attention.note, mlp.note))),
            classes=attention.classes + mlp.classes,
            whole=attention.whole | mlp.whole,
        )
        for attention in attentions
        for mlp in MLPS
    )


class _Macs(NamedTuple):
    """Multiply-accumulates for each input, each token and each pair of tokens."""

    once: int = 0
    per_token: int = 0
    per_pair: int = 0


def surroundings(model: nn.Module, layers: tuple[str, ...]) -> Surroundings:
    """Count patch projection, pooling and classifiers, and the sublayers that stay whole.

    Raises:
        UnsupportedModelError: Something else than one convolution makes patches of an image.
    """
    path, trunk = _trunk(model)
    if trunk is None:
        return Surroundings(native_tokens=0, fixed_macs_per_token=0, fixed_macs=0)
    pool = f"{path}attn_pool"
    outside = [module for name, module in model.named_modules() if not name.startswith((*layers, pool))]
    classifiers = _linears(outside)
    counted = [
        _patches(trunk, path),
        _Macs(once=classifiers) if trunk.global_pool else _Macs(per_token=classifiers),
        _pool(trunk),
        *(_stays_whole(model.get_submodule(layer)) for layer in layers),
    ]
    once, per_token, per_pair = map(sum, zip(*counted, strict=True))
    tokens = trunk.patch_embed.num_patches + trunk.num_prefix_tokens
    return Surroundings(tokens, per_token, once, per_pair, _pooling(trunk))


def _trunk(model: nn.Module) -> tuple[str, Any]:
    """Return the transformer itself, which may be a part of the model, and its path up to the dot."""
    for path, module in model.named_modules():
        if hasattr(module, "patch_embed"):
            return f"{path}.".lstrip("."), module
    return "", None


def _linears(modules: Iterable[nn.Module]) -> int:
    return sum(module.weight.numel() for module in modules if isinstance(module, nn.Linear))


def _patches(trunk: Any, path: str) -> _Macs:
    embed = trunk.patch_embed
    if class_name(embed) != "timm.layers.patch_embed.PatchEmbed":
        raise UnsupportedModelError(
            f"{path}patch_embed is a {type(embed).__name__}, whose compute isn't known; only a PatchEmbed's is."
        )
    if embed.num_patches is None:
        raise UnsupportedModelError(
            f"{path}patch_embed has no image size, so the model has no native input. Pass img_size to create_model."
        )
    per_patch = embed.proj.weight.numel()
    return _Macs(once=-trunk.num_prefix_tokens * per_patch, per_token=per_patch)


def _pool(trunk: Any) -> _Macs:
    """Count attention that pools: with a query of its own, or of all tokens without any weights."""
    pool = trunk.attn_pool
    if pool is None:
        return _Macs()
    if not hasattr(pool, "latent"):
        return _Macs(per_pair=2 * trunk.embed_dim)
    queries = pool.latent_len
    per_token = pool.kv.weight.numel() + 2 * queries * pool.kv.in_features
    # Only a ViT's pooling can leave out the class token and the registers.
    skipped = 0 if getattr(trunk, "pool_include_prefix", True) else trunk.num_prefix_tokens
    others = queries * (_linears(pool.modules()) - pool.kv.weight.numel())
    return _Macs(once=others - skipped * per_token, per_token=per_token)


def _stays_whole(layer: Any) -> _Macs:
    """Count what of a block has a norm over all heads or all neurons, and so is in no site."""
    per_token = per_pair = 0
    if not isinstance(layer.attn.norm, nn.Identity):
        per_token += _linears(layer.attn.modules())
        per_pair = 2 * layer.attn.proj.in_features
    if not isinstance(layer.mlp.norm, nn.Identity):
        per_token += _linears(layer.mlp.modules())
    return _Macs(per_token=per_token, per_pair=per_pair)


def _pooling(trunk: Any) -> str:
    """Return the name of what the model does with its tokens; without any, what they are usually pooled by."""
    if trunk.global_pool:
        return _POOLINGS.get(trunk.global_pool, "pooler")
    return "mean" if trunk.cls_token is None else "cls"
