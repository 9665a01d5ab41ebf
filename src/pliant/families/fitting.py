"""Which of a family's layouts a transformer layer has."""

from torch import nn

from pliant.errors import UnsupportedModelError
from pliant.families.layout import Layout, class_name


def layout_of(layer: nn.Module, path: str, layouts: tuple[Layout, ...]) -> Layout:
    """Return the layout that a layer has.

    Raises:
        UnsupportedModelError: It has none of these; the message names the parts that aren't known, or missing.
    """
    leaves = _leaves(layer)
    fitting = [layout for layout in layouts if class_name(layer) in layout.layers]
    for layout in fitting:
        if _needed(layout) <= leaves <= _known(layout) and not _others(layer, layout):
            return layout
    closest = max(fitting, key=lambda layout: (len(leaves & _known(layout)), -len(_others(layer, layout))))
    unknown = sorted(leaves - _known(closest))
    missing = sorted(_needed(closest) - leaves)
    parts = [f"doesn't know {', '.join(f'{path}.{name}' for name in unknown)}"] if unknown else []
    parts += [f"misses {', '.join(f'{path}.{name}' for name in missing)}"] if missing else []
    parts += [f"doesn't know a {kind} as {path}.{name}" for name, kind in _others(layer, closest).items()]
    raise UnsupportedModelError(
        f"pliant can't take this {type(layer).__name__} apart: it {' and '.join(parts)}. "
        f"Known parts: {', '.join(sorted(_known(closest)))}."
    )


def _leaves(layer: nn.Module) -> set[str]:
    """Return the modules without children, and the parameters that other modules hold themselves."""
    leaves: set[str] = set()
    for name, module in layer.named_modules():
        if name and not any(True for _ in module.children()):
            leaves.add(name)
        else:
            leaves |= {f"{name}.{key}".lstrip(".") for key, _ in module.named_parameters(recurse=False)}
    return leaves


def _needed(layout: Layout) -> set[str]:
    return {*layout.linears, *layout.biases, *layout.whole}


def _known(layout: Layout) -> set[str]:
    return {*_needed(layout), *layout.passive, *layout.parameters}


def _others(layer: nn.Module, layout: Layout) -> dict[str, str]:
    """Return the modules that are of another class than the layout says, with the names of their classes."""
    modules = dict(layer.named_modules())
    found = [(has.path, modules[has.path], has.classes) for has in layout.classes if has.path in modules]
    return {path: class_name(module) for path, module, classes in found if class_name(module) not in classes}
