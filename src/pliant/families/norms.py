"""Finds the norms of a model that can follow its size."""

from torch import nn

from pliant.anatomy import Norm, Output

_OFFSET = ("Gemma",)
"""Beginnings of the names of norms that multiply by one more than their weight."""


def norms_of(model: nn.Module, layers: tuple[str, ...], width: int, output: Output | None) -> tuple[Norm, ...]:
    """Return the norms over the model's width, in the order of their modules.

    Norms over the heads' or the neurons' own width aren't among them, as they may be cut.

    Args:
        model: The model.
        layers: Paths of its layers.
        width: Entries of one token between the layers.
        output: Where the token outputs come from.
    """
    inside = tuple(f"{layer}." for layer in layers)
    return tuple(
        _norm(path, module)
        for path, module in model.named_modules()
        if (path.startswith(inside) or (output is not None and path == output.module)) and _is_norm(module, width)
    )


def _is_norm(module: nn.Module, width: int) -> bool:
    shapes = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
    allowed = ({"weight": (width,)}, {"weight": (width,), "bias": (width,)})
    return "Norm" in type(module).__name__ and shapes in allowed


def _norm(path: str, module: nn.Module) -> Norm:
    name = type(module).__name__
    return Norm(path, bias=getattr(module, "bias", None) is not None, offset=int(name.startswith(_OFFSET)))
