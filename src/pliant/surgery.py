"""Reordering units, and models that keep only the first units of every site."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pliant.anatomy import Anatomy, Site

_OWN = ("_modules", "_parameters", "_buffers", "_forward")
"""Beginnings of the names of the dictionaries that a view has for itself: the last are the forward hooks."""


class Slot(NamedTuple):
    """A tensor that is cut with its site.

    Args:
        name: Its name in the state dict.
        axis: The dimension that the units lie along.
        per_unit: Entries along that dimension for one unit.
    """

    name: str
    axis: int
    per_unit: int


def slots(site: Site) -> Iterator[Slot]:
    """Yield the tensors that hold a site's units: producer rows and biases, consumer columns."""
    for producer in site.producers:
        yield Slot(f"{producer.module}.weight", 0, producer.rows)
        if producer.bias:
            yield Slot(f"{producer.module}.bias", 0, producer.rows)
    yield Slot(f"{site.consumer}.weight", 1, site.width)


def entries(order: Tensor, per_unit: int) -> Tensor:
    """Return the positions `[units × per_unit]` of the entries of units in the given order `[units]`."""
    return (order.unsqueeze(1) * per_unit + torch.arange(per_unit, device=order.device)).reshape(-1)


def reordered(model: nn.Module, anatomy: Anatomy, orders: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield name and copy of every tensor that units live in, with the units of each site in the given order.

    Args:
        model: The model.
        anatomy: Its anatomy.
        orders: For each site, the present index of every unit in the new order `[units]`.
    """
    for site, order in zip(anatomy.sites, orders, strict=True):
        for name, axis, per_unit in slots(site):
            tensor = model.get_parameter(name).detach()
            yield name, tensor.index_select(axis, entries(order.to(tensor.device), per_unit))


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


def view(model: nn.Module, anatomy: Anatomy, widths: Sequence[int], biases: Sequence[Tensor]) -> nn.Module:
    """Return a model that keeps the first units of every site and shares all storage with `model`.

    The module tree is copied shallowly along the paths to all sites, whole ones too, so that hooks on a view (such as
    those that transformers itself adds to record hidden states) stay there; what lies elsewhere is the same object.

    Args:
        model: The full model, units in order of score.
        anatomy: Its anatomy.
        widths: Units to keep at each site.
        biases: For each site, the consumer's bias with the rest bias added `[outputs]`.
    """
    tree = _ShallowTree(model)
    for site, width, bias in zip(anatomy.sites, widths, biases, strict=True):
        for path in (site.consumer, *(producer.module for producer in site.producers)):
            tree.module(path)
        if width == site.units:
            continue
        for name, axis, per_unit in slots(site):
            tree.narrow_(name, axis, width * per_unit)
        tree.replace_(f"{site.consumer}.bias", bias)
        tree.module(site.consumer).__dict__["in_features"] = width * site.width
        for producer in site.producers:
            tree.module(producer.module).__dict__["out_features"] = width * producer.rows
        for attribute in site.attributes:
            tree.module(attribute.module).__dict__[attribute.name] = width * attribute.per_unit
    return tree.root


@torch.inference_mode(False)
def standalone(model: nn.Module) -> nn.Module:
    """Return a copy of a view with contiguous weights of its own."""
    own = copy.deepcopy(model)
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

    def narrow_(self, name: str, axis: int, length: int) -> None:
        """Replace a parameter by a view of its first entries along `axis`."""
        module, _, key = name.rpartition(".")
        parameter = self.module(module)._parameters[key]
        assert parameter is not None
        self.replace_(name, parameter.detach().narrow(axis, 0, length))

    def replace_(self, name: str, tensor: Tensor) -> None:
        """Replace a parameter by a tensor that takes gradients if the parameter did."""
        module, _, key = name.rpartition(".")
        parameters = self.module(module)._parameters
        replaced = parameters[key]
        assert replaced is not None
        parameters[key] = nn.Parameter(tensor, requires_grad=replaced.requires_grad)


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
