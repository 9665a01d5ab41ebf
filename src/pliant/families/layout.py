"""Where a family keeps the parts of one transformer layer, and the sites that follow from it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import nn

from pliant.anatomy import Attribute, BiasTable, Kind, Producer, SharedBias, Site, Sublayer, Successor
from pliant.errors import UnsupportedModelError
from pliant.families.parts import Becomes, Gives, Has, Packs


@dataclass(frozen=True)
class Heads:
    """Where a layer keeps its attention, as module paths relative to the layer.

    With fewer keys and values than queries (grouped-query attention), a unit is a key/value group with its queries.

    Args:
        name: Name for the site: the attention sublayer.
        projections: The query, key and value projections, in any order; each a path, or packed.
        output: The output projection.
        head_dim: The integer attribute that holds the width of a head, as `module.attribute`.
        counts: Integer attributes that grow with the heads, as `module.attribute`.
        sublayer: What gives way when no head is left; None where one has to stay.
        tables: Parameters with a column for each head, such as relative position biases.
        shared_bias: The module that is given a bias with a row for each head that all layers share, and the name of
            that argument; None where there is none.
        becomes: What takes the attention's place when some heads leave; None where attributes are enough.
    """

    name: str
    projections: tuple[str | Packs, ...]
    output: str
    head_dim: str
    counts: tuple[str, ...] = ()
    sublayer: Gives | None = None
    tables: tuple[str, ...] = ()
    shared_bias: tuple[str, str] | None = None
    becomes: Becomes | None = None


@dataclass(frozen=True)
class Neurons:
    """Where a layer keeps its MLP, as module paths relative to the layer.

    Args:
        name: Name for the site: the MLP sublayer.
        projections: The projections whose rows are neurons (a gated MLP has two, or one that packs both).
        output: The projection that reads the neurons.
        sublayer: What gives way when no neuron is left; None where one has to stay.
        counts: Integer attributes that grow with the neurons, as `module.attribute`.
    """

    name: str
    projections: tuple[str | Packs, ...]
    output: str
    sublayer: Gives | None = None
    counts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """What one kind of transformer layer is made of.

    Args:
        layers: Qualified class names of the layers that look like this.
        heads: Its attention; None where no head can leave.
        neurons: Its MLP; None where no neuron can leave.
        passive: Every other module without children, none of which has units.
        parameters: Names of the parameters that modules with children hold themselves.
        notes: What a user should know of this layout, such as why some units can't leave; full sentences.
        classes: What some of its modules must be.
        whole: Those of its passive modules without which it isn't this layout.
    """

    layers: frozenset[str]
    heads: Heads | None
    neurons: Neurons | None
    passive: frozenset[str]
    parameters: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    classes: tuple[Has, ...] = ()
    whole: frozenset[str] = frozenset()

    @property
    def linears(self) -> tuple[str, ...]:
        """Paths of the layers that are cut."""
        return tuple(path for part in self._parts for path in (*map(_path, part.projections), part.output))

    @property
    def biases(self) -> tuple[str, ...]:
        """Paths of the parameters outside those layers that are cut with them."""
        packed = [packs for part in self._parts for packs in part.projections if isinstance(packs, Packs)]
        return tuple(path for packs in packed for path in packs.biases if path is not None)

    @property
    def _parts(self) -> tuple[Heads | Neurons, ...]:
        return tuple(part for part in (self.heads, self.neurons) if part is not None)


@dataclass(frozen=True)
class Surroundings:
    """What a family knows of a model beside its layers.

    Args:
        native_tokens: Tokens of a full-size input; 0 where the model has no embeddings.
        fixed_macs_per_token: Multiply-accumulates outside the sites, for each token.
        fixed_macs: Multiply-accumulates outside the sites, for each input.
        fixed_macs_per_pair: The same for each pair of tokens: attention of which no head can leave.
        pooling: The model's own pooling, where it differs from the family's.
    """

    native_tokens: int
    fixed_macs_per_token: int
    fixed_macs: int
    fixed_macs_per_pair: int = 0
    pooling: str = ""


@dataclass(frozen=True)
class Family:
    """One model family: its layouts, its usual pooling, and what lies beside its layers.

    Args:
        name: The family's name.
        members: Well-known models of the family, for messages.
        layouts: The layouts that its layers may have.
        pooling: The family's usual pooling.
        surroundings: Looks at a model and the paths of its layers.
        objective: What of the outputs is used: the embedding (`pooled`), or its tokens as well (`pooled+tokens`).
        output: Name of the norm that the token outputs come from: in the last layer, or in what holds the layers.
            Empty where the embedding isn't pooled from its tokens one by one.
    """

    name: str
    members: str
    layouts: tuple[Layout, ...]
    pooling: str
    surroundings: Callable[[nn.Module, tuple[str, ...]], Surroundings]
    objective: str = "pooled"
    output: str = ""

    @property
    def layers(self) -> frozenset[str]:
        """Qualified class names of all the family's layers."""
        return frozenset().union(*(layout.layers for layout in self.layouts))


def class_name(module: nn.Module) -> str:
    """Return the qualified name of a module's class."""
    return f"{type(module).__module__}.{type(module).__qualname__}"


def layer_sites(layer: nn.Module, path: str, index: int, layout: Layout) -> list[Site]:
    """Return the attention site and the MLP site of one layer, as far as its layout has them.

    Raises:
        UnsupportedModelError: A part of the layer isn't as the layout says; the message names it.
    """
    for name in layout.linears:
        if type(layer.get_submodule(name)) is not nn.Linear:
            kind = type(layer.get_submodule(name)).__name__
            raise UnsupportedModelError(f"{path}.{name} is a {kind}; only a plain torch.nn.Linear can be cut.")
        if not {key for key, _ in layer.get_submodule(name).named_parameters()} <= {"weight", "bias"}:
            raise UnsupportedModelError(
                f"{path}.{name} has parameters besides weight and bias (pruned or normalised by torch.nn.utils?). "
                "Make it a plain torch.nn.Linear first, such as by torch.nn.utils.prune.remove."
            )
    sites = [] if layout.heads is None else [_heads(layer, path, index, layout.heads)]
    return sites if layout.neurons is None else [*sites, _neurons(layer, path, index, layout.neurons)]


def _path(projection: str | Packs) -> str:
    return projection.path if isinstance(projection, Packs) else projection


def _heads(layer: nn.Module, path: str, index: int, heads: Heads) -> Site:
    head_dim = _integer(layer, path, heads.head_dim)
    rows = [_rows(layer, projection) for projection in heads.projections]
    # As many units as the projection with the fewest heads has, which is the keys' or the values'.
    site = _site(layer, path, index, "heads", heads, min(rows) // max(1, head_dim), head_dim)
    site = replace(site, tables=tuple(_table(layer, path, name, site.units) for name in heads.tables))
    if heads.shared_bias is None:
        return site
    module, argument = heads.shared_bias
    return replace(site, shared_bias=SharedBias(f"{path}.{module}", argument))


def _table(layer: nn.Module, prefix: str, name: str, units: int) -> BiasTable:
    table = dict(layer.named_parameters()).get(name)
    if table is None or table.dim() != 2 or table.shape[1] != units:
        raise UnsupportedModelError(f"{prefix}.{name} is no table with a column for each of the {units} heads.")
    return BiasTable(f"{prefix}.{name}", table.shape[0])


def _neurons(layer: nn.Module, path: str, index: int, neurons: Neurons) -> Site:
    return _site(layer, path, index, "neurons", neurons, min(_rows(layer, part) for part in neurons.projections), 1)


def _rows(layer: nn.Module, projection: str | Packs) -> int:
    linear = layer.get_submodule(_path(projection))
    assert isinstance(linear, nn.Linear)
    return linear.out_features // (projection.parts if isinstance(projection, Packs) else 1)


def _site(
    layer: nn.Module, path: str, index: int, kind: Kind, parts: Heads | Neurons, units: int, unit_rows: int
) -> Site:
    consumer = layer.get_submodule(parts.output)
    assert isinstance(consumer, nn.Linear)
    rows = sorted({_rows(layer, projection) for projection in parts.projections})
    whole = units > 0 and rows[0] == units * unit_rows and all(row % units == 0 for row in rows)
    if not whole or consumer.in_features != rows[-1]:
        raise UnsupportedModelError(
            f"{path}.{parts.name}: its projections have {' and '.join(map(str, rows))} rows, its output projection "
            f"reads {consumer.in_features} columns, one of its {kind} takes {unit_rows}. These must agree."
        )
    producers = tuple(_producer(layer, path, projection, units) for projection in parts.projections)
    site = Site(
        name=f"{path}.{parts.name}",
        kind=kind,
        layer=index,
        units=units,
        width=consumer.in_features // units,
        consumer=f"{path}.{parts.output}",
        outputs=consumer.out_features,
        producers=producers,
        attributes=tuple(_attribute(layer, path, count, units) for count in parts.counts),
        consumer_bias=consumer.bias is not None,
        successor=_successor(path, parts.becomes, unit_rows) if isinstance(parts, Heads) and parts.becomes else None,
    )
    return site if parts.sublayer is None else replace(site, sublayer=_sublayer(layer, path, parts.sublayer, site))


def _producer(layer: nn.Module, prefix: str, projection: str | Packs, units: int) -> Producer:
    linear = layer.get_submodule(_path(projection))
    assert isinstance(linear, nn.Linear)
    packs = projection if isinstance(projection, Packs) else Packs(projection, 1)
    return Producer(
        module=f"{prefix}.{packs.path}",
        rows=linear.out_features // (packs.parts * units),
        inputs=linear.in_features,
        bias=linear.bias is not None,
        parts=packs.parts,
        biases=tuple(bias and f"{prefix}.{bias}" for bias in packs.biases),
    )


def _successor(prefix: str, becomes: Becomes, head_dim: int) -> Successor:
    module = f"{prefix}.{becomes.path}"
    counts = [Attribute(module, name, 1) for name in becomes.counts]
    widths = [Attribute(module, name, head_dim) for name in becomes.widths]
    return Successor(module, becomes.class_name, (*counts, *widths), becomes.constants)


def _sublayer(layer: nn.Module, path: str, gives: Gives, site: Site) -> Sublayer:
    inside = sum(parameter.numel() for parameter in layer.get_submodule(gives.path).parameters())
    units = sum(producer.parameters for producer in site.producers)
    holds_consumer = site.consumer.startswith(f"{path}.{gives.path}.")
    if holds_consumer:
        units += site.width * site.outputs
    bias = site.outputs if holds_consumer and site.consumer_bias else 0
    return Sublayer(f"{path}.{gives.path}", gives.returns, inside - site.units * units - bias)


def _attribute(layer: nn.Module, prefix: str, path: str, units: int) -> Attribute:
    module, _, name = path.rpartition(".")
    value = _integer(layer, prefix, path)
    if value % units:
        raise UnsupportedModelError(f"{prefix}.{path} is {value}, which is no multiple of its {units} units.")
    return Attribute(f"{prefix}.{module}", name, value // units)


def _integer(layer: nn.Module, prefix: str, path: str) -> int:
    module, _, name = path.rpartition(".")
    value = getattr(layer.get_submodule(module), name, None)
    if not isinstance(value, int):
        raise UnsupportedModelError(
            f"{prefix}.{path} is {value!r:.40}, where this family has an integer. Is it another release of its library?"
        )
    return value
