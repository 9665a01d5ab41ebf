"""Reordering units, and models that keep only the first units of every site."""

import copy
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pliant.anatomy import Anatomy, Norm, Site, Successor
from pliant.output_maps import OutputMap
from pliant.replacements import Constant, Mapped, Packed, Passthrough, PicksHeads

_OWN = ("_modules", "_parameters", "_buffers", "_forward")
"""Beginnings of the names of the dictionaries that a view has for itself: the last are the forward hooks."""


class Slot(NamedTuple):
    """A tensor that is cut with its site.

    Args:
        name: Its name in the state dict.
        axis: The dimension that the units lie along.
        per_unit: Entries along that dimension for one unit, in each part.
        parts: How many equal parts that dimension has, each with all units.
    """

    name: str
    axis: int
    per_unit: int
    parts: int = 1


def slots(site: Site) -> Iterator[Slot]:
    """Yield the tensors that hold a site's units: producer rows and biases, consumer columns, columns of tables."""
    for producer in site.producers:
        yield Slot(f"{producer.module}.weight", 0, producer.rows, producer.parts)
        if producer.bias:
            yield Slot(f"{producer.module}.bias", 0, producer.rows, producer.parts)
        yield from (Slot(bias, 0, producer.rows) for bias in producer.biases if bias is not None)
    yield Slot(f"{site.consumer}.weight", 1, site.width)
    for table in site.tables:
        yield Slot(table.parameter, 1, 1)


def entries(order: Tensor, per_unit: int, parts: int = 1) -> Tensor:
    """Return the positions `[parts × units × per_unit]` of the entries of units in the given order `[units]`."""
    one = (order.unsqueeze(1) * per_unit + torch.arange(per_unit, device=order.device)).reshape(-1)
    return torch.cat([one + part * len(one) for part in range(parts)])


def reordered(model: nn.Module, anatomy: Anatomy, orders: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield name and copy of every tensor that units live in, with the units of each site in the given order.

    Args:
        model: The model.
        anatomy: Its anatomy.
        orders: For each site, the present index of every unit in the new order `[units]`.
    """
    for site, order in zip(anatomy.sites, orders, strict=True):
        for name, axis, per_unit, parts in slots(site):
            tensor = model.get_parameter(name).detach()
            yield name, tensor.index_select(axis, entries(order.to(tensor.device), per_unit, parts))


@torch.no_grad()
def reorder_(model: nn.Module, anatomy: Anatomy, orders: Sequence[Tensor]) -> None:
    """Put the units of each site in the given order, in place; the model computes what it did.

    Args:
        model: The model.
        anatomy: Its anatomy.
        orders: For each site, the present index of every unit in the new order `[units]`.
    """
    for name, tensor in reordered(model, anatomy, orders):
        model.get_parameter(name).copy_(tensor)
    for site, order in zip(anatomy.sites, orders, strict=True):
        if site.shared_bias is not None:
            picks = _picking(model.get_submodule(site.shared_bias.module), site)
            picks.heads = picks.heads[order.to(picks.heads.device)]
            model.set_submodule(site.shared_bias.module, picks)


def picked_heads(anatomy: Anatomy) -> set[str]:
    """Return the names of the buffers that a model gains when its units are reordered: which head comes where."""
    return {f"{site.shared_bias.module}.heads" for site in anatomy.sites if site.shared_bias is not None}


def _picking(module: nn.Module, site: Site) -> PicksHeads:
    """Return the module itself if it picks its heads' rows of a shared bias already, or one that does."""
    if isinstance(module, PicksHeads):
        return module
    assert site.shared_bias is not None
    device = next(module.parameters()).device
    return PicksHeads(module, site.shared_bias.argument, torch.arange(site.units, device=device))


def view(
    model: nn.Module,
    anatomy: Anatomy,
    widths: Sequence[int],
    biases: Sequence[Tensor | None],
    output_map: OutputMap | None = None,
    norms: Tensor | None = None,
) -> nn.Module:
    """Return a model that keeps the first units of every site and shares all storage with `model`.

    The module tree is copied shallowly along the paths to all sites, whole ones too, so that hooks on a view (such as
    those that transformers itself adds to record hidden states) stay there; what lies elsewhere is the same object.

    Args:
        model: The full model, units in order of score.
        anatomy: Its anatomy.
        widths: Units to keep at each site.
        biases: For each site, the consumer's bias with the rest bias added `[outputs]`; not looked at for whole sites.
        output_map: What its token outputs go through.
        norms: g and b by which each norm's output y becomes y + g ⊙ y + b, `[norms, 2, width]`.
    """
    tree = _ShallowTree(model)
    for site, width, bias in zip(anatomy.sites, widths, biases, strict=True):
        for path in (site.consumer, *(producer.module for producer in site.producers)):
            tree.module(path)
        if site.shared_bias is not None:
            _pick_(tree, site, width)
        if width == site.units:
            continue
        assert bias is not None
        tree.set_bias_(site.consumer, bias)
        if width:
            _narrow_(tree, site, width)
        else:
            _empty_(tree, site)
    for norm, (gain, shift) in zip(anatomy.norms, () if norms is None else norms, strict=norms is not None):
        tree.correct_(norm, gain, shift)
    if output_map is not None:
        assert anatomy.output is not None
        norm = anatomy.output.module
        tree.set_module_(norm, Mapped(tree.module(norm), output_map))
    return tree.root


def _narrow_(tree: "_ShallowTree", site: Site, width: int) -> None:
    """Keep the first units of a site."""
    for name, axis, per_unit, parts in slots(site):
        if parts == 1:
            tree.narrow_(name, axis, width * per_unit)
    tree.module(site.consumer).__dict__["in_features"] = width * site.width
    for producer in site.producers:
        linear = tree.module(producer.module)
        if producer.parts == 1:
            linear.__dict__["out_features"] = width * producer.rows
        else:
            assert isinstance(linear, nn.Linear)
            biases = [None if bias is None else tree.parameter(bias) for bias in producer.biases]
            tree.set_module_(producer.module, Packed(linear, producer.parts, width * producer.rows, biases))
    for attribute in site.attributes:
        tree.module(attribute.module).__dict__[attribute.name] = width * attribute.per_unit
    if site.successor:
        _succeed_(tree.module(site.successor.module), site.successor, width)


def _succeed_(module: nn.Module, successor: Successor, width: int) -> None:
    """Make a module one of the class that takes its place; what it held itself is in its projections by now."""
    library, _, name = successor.class_name.rpartition(".")
    module.__class__ = getattr(importlib.import_module(library), name)
    module._parameters.clear()
    module._buffers.clear()
    for attribute in successor.attributes:
        module.__dict__[attribute.name] = width * attribute.per_unit
    module.__dict__.update(successor.constants)


def _pick_(tree: "_ShallowTree", site: Site, width: int) -> None:
    """Let the first units of a site pick their rows of a bias that all layers share."""
    assert site.shared_bias is not None
    module = tree.module(site.shared_bias.module)
    picks = _picking(module, site)
    picks.heads = picks.heads[:width]
    tree.set_module_(site.shared_bias.module, picks)


def _empty_(tree: "_ShallowTree", site: Site) -> None:
    """Put a constant in the place of a site's sublayer."""
    assert site.sublayer is not None
    bias, returns = tree.module(site.consumer)._parameters["bias"], site.sublayer.returns
    assert bias is not None
    if site.consumer.startswith(f"{site.sublayer.module}."):
        tree.set_module_(site.sublayer.module, Constant(bias, returns))
    else:
        tree.set_module_(site.consumer, Constant(bias, 1))
        tree.set_module_(site.sublayer.module, Passthrough(returns))


@torch.inference_mode(False)
def standalone(model: nn.Module) -> nn.Module:
    """Return a copy of a view with contiguous weights of its own."""
    own = copy.deepcopy(model)
    for path, module in list(own.named_modules()):
        if isinstance(module, Packed) and module.is_linear:
            own.set_submodule(path, module.linear())
        if isinstance(module, PicksHeads):
            module.heads = module.heads.clone()
    for parameter in own.parameters():
        parameter.data = parameter.data.contiguous()
    return own


class _ShallowTree:
    """A shallow copy of a module tree, made where it is asked for."""

    def __init__(self, model: nn.Module) -> None:
        self.root = _shallow(model)
        self._copies: dict[str, nn.Module] = {"": self.root}

    def module(self, path: str) -> nn.Module:
        """Return the copy of the module at `path`, making it and its parents when they are still the originals."""
        if path not in self._copies:
            parent, _, name = path.rpartition(".")
            siblings = self.module(parent)._modules
            original = siblings[name]
            assert original is not None
            siblings[name] = self._copies[path] = _shallow(original)
        return self._copies[path]

    def set_module_(self, path: str, module: nn.Module) -> None:
        """Put another module in the place of the one at `path`."""
        parent, _, name = path.rpartition(".")
        module.training = self.module(path).training
        self.module(parent)._modules[name] = self._copies[path] = module

    def parameter(self, name: str) -> nn.Parameter:
        """Return the parameter of that name."""
        module, _, key = name.rpartition(".")
        parameter = self.module(module)._parameters[key]
        assert parameter is not None
        return parameter

    def narrow_(self, name: str, axis: int, length: int) -> None:
        """Replace a parameter by a view of its first entries along `axis`."""
        module, _, key = name.rpartition(".")
        whole = self.parameter(name)
        narrow = nn.Parameter(whole.detach().narrow(axis, 0, length), whole.requires_grad)
        self.module(module)._parameters[key] = narrow

    def correct_(self, norm: Norm, gain: Tensor, shift: Tensor) -> None:
        """Give a norm a weight and a bias by which its output y becomes y + `gain` ⊙ y + `shift`."""
        parameters = self.module(norm.module)._parameters
        weight, bias = parameters["weight"], parameters.get("bias")
        assert weight is not None
        changed = (weight.detach().float() + norm.offset) * (1 + gain) - norm.offset
        parameters["weight"] = nn.Parameter(changed.to(weight.dtype), weight.requires_grad)
        if bias is not None:
            moved = bias.detach().float() * (1 + gain) + shift
            parameters["bias"] = nn.Parameter(moved.to(bias.dtype), bias.requires_grad)

    def set_bias_(self, path: str, bias: Tensor) -> None:
        """Give a linear layer a bias in the place of the one that it has or lacks."""
        parameters = self.module(path)._parameters
        follows = parameters["weight"] if parameters["bias"] is None else parameters["bias"]
        assert follows is not None
        parameters["bias"] = nn.Parameter(bias, follows.requires_grad)


def _shallow(module: nn.Module) -> nn.Module:
    twin = object.__new__(type(module))
    attributes: Mapping[str, object] = module.__dict__
    twin.__dict__.update(attributes)
    # What `Module.compile` left runs the module that it was called on, at its full size.
    twin.__dict__["_compiled_call_impl"] = None
    for name, value in attributes.items():
        if isinstance(value, dict) and name.startswith(_OWN):
            twin.__dict__[name] = value.copy()
    return twin
