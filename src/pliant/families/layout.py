"""Where a family keeps the parts of one transformer layer, and the sites that follow from it."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from pliant.anatomy import Attribute, Kind, Producer, Site
from pliant.errors import UnsupportedModelError


@dataclass(frozen=True)
class Layout:
    """Module paths inside one layer, relative to it.

    Args:
        layers: Qualified class names of the layers that look like this.
        attention: The attention sublayer.
        projections: Its query, key and value projections.
        attention_output: Its output projection.
        head_dim: The integer attribute that holds the width of a head, as `module.attribute`.
        head_counts: Attributes that count heads, as `module.attribute`.
        head_widths: Attributes that hold heads × head_dim, as `module.attribute`.
        mlp: Name for the MLP's site.
        mlp_inputs: The projections whose rows are neurons (a gated MLP has two).
        mlp_output: The projection that reads the neurons.
        passive: Every other module without children, none of which has units.
    """

    layers: frozenset[str]
    attention: str
    projections: tuple[str, ...]
    attention_output: str
    head_dim: str
    head_counts: tuple[str, ...]
    mlp: str
    mlp_inputs: tuple[str, ...]
    mlp_output: str
    passive: frozenset[str]
    head_widths: tuple[str, ...] = ()

    @property
    def linears(self) -> tuple[str, ...]:
        """Paths of the layers that are cut."""
        return (*self.projections, self.attention_output, *self.mlp_inputs, self.mlp_output)


@dataclass(frozen=True)
class Surroundings:
    """What a family knows of a model beside its layers.

    Args:
        native_tokens: Tokens of a full-size input; 0 where the model has no embeddings.
        fixed_macs_per_token: Multiply-accumulates outside the sites, for each token.
        fixed_macs: Multiply-accumulates outside the sites, for each input.
    """

    native_tokens: int
    fixed_macs_per_token: int
    fixed_macs: int


@dataclass(frozen=True)
class Family:
    """One model family: its layouts, its usual pooling, and what lies beside its layers.

    Args:
        name: The family's name.
        members: Well-known models of the family, for messages.
        layouts: The layouts that its layers may have.
        pooling: The family's usual pooling.
        surroundings: Looks at a model and the paths of its layers.
    """

    name: str
    members: str
    layouts: tuple[Layout, ...]
    pooling: str
    surroundings: Callable[[nn.Module, tuple[str, ...]], Surroundings]

    @property
    def layers(self) -> frozenset[str]:
        """Qualified class names of all the family's layers."""
        return frozenset().union(*(layout.layers for layout in self.layouts))


def class_name(module: nn.Module) -> str:
    """Return the qualified name of a module's class."""
    return f"{type(module).__module__}.{type(module).__qualname__}"


def layer_sites(layer: nn.Module, path: str, index: int, layouts: tuple[Layout, ...]) -> tuple[Site, Site]:
    """Return the attention site and the MLP site of one layer.

    Raises:
        UnsupportedModelError: A part of the layer isn't understood; the message names it.
    """
    layout = _match(layer, path, layouts)
    for name in layout.linears:
        if type(layer.get_submodule(name)) is not nn.Linear:
            kind = type(layer.get_submodule(name)).__name__
            raise UnsupportedModelError(f"{path}.{name} is a {kind}; only a plain torch.nn.Linear can be cut.")
        if not {key for key, _ in layer.get_submodule(name).named_parameters()} <= {"weight", "bias"}:
            raise UnsupportedModelError(
                f"{path}.{name} has parameters besides weight and bias (pruned or normalised by torch.nn.utils?). "
                "Make it a plain torch.nn.Linear first, such as by torch.nn.utils.prune.remove."
            )
    return _heads(layer, path, index, layout), _neurons(layer, path, index, layout)


def _match(layer: nn.Module, path: str, layouts: tuple[Layout, ...]) -> Layout:
    leaves = {name for name, module in layer.named_modules() if name and not any(True for _ in module.children())}
    fitting = [layout for layout in layouts if class_name(layer) in layout.layers]
    for layout in fitting:
        if set(layout.linears) <= leaves <= {*layout.linears, *layout.passive}:
            return layout
    closest = max(fitting, key=lambda layout: len(leaves & {*layout.linears, *layout.passive}))
    unknown = sorted(leaves - {*closest.linears, *closest.passive})
    missing = sorted(set(closest.linears) - leaves)
    parts = [f"doesn't know {', '.join(f'{path}.{name}' for name in unknown)}"] if unknown else []
    parts += [f"misses {', '.join(f'{path}.{name}' for name in missing)}"] if missing else []
    raise UnsupportedModelError(
        f"pliant can't take this {type(layer).__name__} apart: it {' and '.join(parts)}. "
        f"Known parts: {', '.join(sorted({*closest.linears, *closest.passive}))}."
    )


def _site(
    layer: nn.Module,
    prefix: str,
    index: int,
    name: str,
    kind: Kind,
    width: int,
    inputs: tuple[str, ...],
    output: str,
    attributes: tuple[Attribute, ...] = (),
) -> Site:
    consumer = layer.get_submodule(output)
    assert isinstance(consumer, nn.Linear)
    producers = tuple(_producer(layer, prefix, path, width) for path in inputs)
    rows = {layer.get_submodule(path).out_features for path in inputs}
    if rows != {consumer.in_features} or consumer.in_features % width:
        raise UnsupportedModelError(
            f"{prefix}.{name}: its projections have {sorted(map(str, rows))} rows, its output projection reads "
            f"{consumer.in_features} columns, one of its {kind} takes {width}. These must agree."
        )
    if consumer.bias is None:
        raise UnsupportedModelError(f"{prefix}.{output} has no bias, which this family needs for its rest values.")
    return Site(
        name=f"{prefix}.{name}",
        kind=kind,
        layer=index,
        units=consumer.in_features // width,
        width=width,
        consumer=f"{prefix}.{output}",
        outputs=consumer.out_features,
        producers=producers,
        attributes=attributes,
    )


def _producer(layer: nn.Module, prefix: str, path: str, rows: int) -> Producer:
    linear = layer.get_submodule(path)
    assert isinstance(linear, nn.Linear)
    return Producer(f"{prefix}.{path}", rows, linear.in_features, linear.bias is not None)


def _attribute(prefix: str, path: str, per_unit: int) -> Attribute:
    module, _, name = path.rpartition(".")
    return Attribute(f"{prefix}.{module}", name, per_unit)


def _heads(layer: nn.Module, path: str, index: int, layout: Layout) -> Site:
    module, _, name = layout.head_dim.rpartition(".")
    head_dim = int(getattr(layer.get_submodule(module), name))
    counts = tuple(_attribute(path, count, 1) for count in layout.head_counts)
    widths = tuple(_attribute(path, width, head_dim) for width in layout.head_widths)
    attributes = counts + widths
    return _site(
        layer,
        path,
        index,
        layout.attention,
        "heads",
        head_dim,
        layout.projections,
        layout.attention_output,
        attributes,
    )


def _neurons(layer: nn.Module, path: str, index: int, layout: Layout) -> Site:
    return _site(layer, path, index, layout.mlp, "neurons", 1, layout.mlp_inputs, layout.mlp_output)
