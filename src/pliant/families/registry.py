"""The families that pliant knows, in order, and `describe`, which finds a model's."""

from itertools import takewhile

from torch import nn

from pliant.anatomy import Anatomy, Output, Site
from pliant.errors import UnsupportedModelError
from pliant.families import (
    beit,
    bert,
    clip,
    dinov2,
    dinov3,
    distilbert,
    gemma,
    gemma3,
    gte,
    llama,
    modernbert,
    mpnet,
    nomic_bert,
    qwen3,
    siglip,
    timm_eva,
    timm_vit,
    vit,
)
from pliant.families.fitting import layout_of
from pliant.families.layout import Family, class_name, layer_sites
from pliant.families.norms import norms_of

FAMILIES: tuple[Family, ...] = (
    bert.FAMILY,
    distilbert.FAMILY,
    mpnet.FAMILY,
    modernbert.FAMILY,
    nomic_bert.FAMILY,
    gte.FAMILY,
    qwen3.FAMILY,
    llama.FAMILY,
    gemma.FAMILY,
    gemma3.FAMILY,
    vit.FAMILY,
    dinov2.FAMILY,
    dinov3.FAMILY,
    siglip.FAMILY,
    clip.FAMILY,
    beit.FAMILY,
    timm_vit.FAMILY,
    timm_eva.FAMILY,
)


def describe(model: nn.Module) -> Anatomy:
    """Describe the sites of a model: where its neurons and heads live and what each costs.

    Args:
        model: A transformer encoder of a supported family, with or without a head. It may be on the meta device.

    Returns:
        The model's anatomy, layer by layer, attention before MLP.

    Raises:
        UnsupportedModelError: No family knows the model, or a part of it isn't understood.
    """
    if not isinstance(model, nn.Module):
        raise UnsupportedModelError(
            f"{model!r:.60} is no model but a {type(model).__name__}. Load one, such as by AutoModel.from_pretrained."
        )
    family = _family(model)
    paths = tuple(name for name, module in model.named_modules() if class_name(module) in family.layers)
    _refuse_towers(model, paths)
    sites: list[Site] = []
    notes: dict[str, None] = {}
    for index, path in enumerate(paths):
        layout = layout_of(model.get_submodule(path), path, family.layouts)
        sites += layer_sites(model.get_submodule(path), path, index, layout)
        notes |= dict.fromkeys(layout.notes)
    _refuse_shared(model, paths)
    _refuse_replaced(model, paths)
    if not sites:
        raise UnsupportedModelError(f"Nothing can leave this {type(model).__name__}. {' '.join(notes)}")
    around = family.surroundings(model, paths)
    if around.native_tokens < 1:
        raise UnsupportedModelError(
            f"This {type(model).__name__} has layers but no embeddings of positions or patches. "
            "Pass the whole encoder, not a part of it."
        )
    return Anatomy(
        family=family.name,
        sites=tuple(sites),
        pooling=around.pooling or family.pooling,
        total_parameters=sum(parameter.numel() for parameter in model.parameters()),
        native_tokens=around.native_tokens,
        fixed_macs_per_token=around.fixed_macs_per_token,
        fixed_macs=around.fixed_macs,
        notes=tuple(notes),
        objective=family.objective,
        fixed_macs_per_pair=around.fixed_macs_per_pair,
        layers=paths,
        output=(output := _output(model, paths[-1], family.output)),
        norms=norms_of(model, paths, sites[0].outputs, output),
    )


def _output(model: nn.Module, layer: str, name: str) -> Output | None:
    """Return the norm of that name, looked for in the last layer and then in what holds it, from inside out."""
    modules = dict(model.named_modules())
    holders = [layer, *(layer.rsplit(".", count)[0] for count in range(1, layer.count(".") + 1))]
    for path in (*(f"{holder}.{name}" for holder in holders), name) if name else ():
        # A model that norms what it has pooled has an identity there.
        if (weight := dict(modules.get(path, nn.Identity()).named_parameters()).get("weight")) is not None:
            return Output(path, weight.numel())
    return None


def _refuse_towers(model: nn.Module, layers: tuple[str, ...]) -> None:
    """Refuse a model with several stacks of layers: they read other inputs, and answer with other embeddings."""
    stacks = [path.split(".")[:-1] for path in layers]
    alike = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, zip(*stacks, strict=False)))
    towers = sorted({".".join(stack[: alike + 1]) for stack in stacks})
    if len(towers) > 1:
        raise UnsupportedModelError(
            f"{type(model).__name__} holds the layers of several towers. Describe one at a time: "
            f"pass {' or '.join(f'model.{tower}' for tower in towers)}."
        )


def _refuse_shared(model: nn.Module, layers: tuple[str, ...]) -> None:
    """Refuse weights that two places of the layers share: cutting one would change the other."""
    owners: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        first = owners.setdefault(id(parameter), name)
        if first != name and (name.startswith(layers) or first.startswith(layers)):
            raise UnsupportedModelError(
                f"{name} is the same parameter as {first}; layers that share weights can't be cut one by one. "
                "Give each layer weights of its own."
            )


def _refuse_replaced(model: nn.Module, layers: tuple[str, ...]) -> None:
    """Refuse modules whose `forward` was replaced in place: in a view it would still run the full model."""
    for name, module in model.named_modules():
        path = f"{name}." if name else ""
        around = any(f"{layer}.".startswith(path) or path.startswith(f"{layer}.") for layer in layers)
        if around and "forward" in vars(module):
            raise UnsupportedModelError(
                f"{name or 'The model'}, a {type(module).__name__}, has a forward that something put in the place of "
                "its class's own, as torch.compile and accelerate do. Pass the model as it was before that "
                "(of a compiled one: model._orig_mod); views and cuts can be compiled afterwards."
            )


def _family(model: nn.Module) -> Family:
    classes = {class_name(module) for module in model.modules()}
    found = [family for family in FAMILIES if classes & family.layers]
    if len(found) == 1:
        return found[0]
    known = "; ".join(f"{family.name} ({family.members})" for family in FAMILIES)
    if found:
        names = " and ".join(family.name for family in found)
        raise UnsupportedModelError(
            f"{type(model).__name__} holds layers of several families ({names}). Describe one tower at a time."
        )
    raise UnsupportedModelError(
        f"{type(model).__name__} is of no family that pliant knows. Supported: {known}. "
        "A new family is one small file in pliant/families."
    )
