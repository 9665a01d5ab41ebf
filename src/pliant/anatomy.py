"""What a model is made of: the sites where units live, and what one unit costs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["neurons", "heads"]


@dataclass(frozen=True)
class Unit:
    """One removable unit: its site's position in the anatomy, and its index at that site."""

    site: int
    index: int


@dataclass(frozen=True)
class Producer:
    """A linear layer whose output rows make a site's units.

    Args:
        module: Path of the `nn.Linear` inside the model.
        rows: Output rows that belong to one unit, in each part.
        inputs: The layer's `in_features`.
        bias: Whether the layer has a bias.
        parts: How many projections of one shape the layer packs, one below the other: 3 for a fused query, key and
            value, 2 for a fused gate and up projection.
        biases: For each part, the path of a parameter outside the layer that is its bias; None where it has none.
            Empty where the layer holds its bias itself, or there is none at all.
    """

    module: str
    rows: int
    inputs: int
    bias: bool
    parts: int = 1
    biases: tuple[str | None, ...] = ()

    @property
    def parameters(self) -> int:
        """Parameters that leave with one unit."""
        outside = sum(bias is not None for bias in self.biases)
        return self.rows * (self.parts * (self.inputs + self.bias) + outside)

    @property
    def macs(self) -> int:
        """Multiply-accumulates for one unit and one token."""
        return self.parts * self.rows * self.inputs


@dataclass(frozen=True)
class Attribute:
    """An integer attribute of a module that counts units, such as `num_attention_heads`.

    Args:
        module: Path of the module that has the attribute.
        name: The attribute's name.
        per_unit: How much of the attribute one unit accounts for.
    """

    module: str
    name: str
    per_unit: int


@dataclass(frozen=True)
class BiasTable:
    """A parameter that has a column for each unit, such as a layer's relative position biases.

    Args:
        parameter: Path of the parameter `[rows, units]`.
        rows: Its rows.
    """

    parameter: str
    rows: int


@dataclass(frozen=True)
class Successor:
    """Another class of the module's own library that takes its place once units have left.

    It computes the same from the same parts, but where the module's forward takes a width from its input, which no
    attribute changes, the successor has an attribute for it. What the module held itself, its successor doesn't need.

    Args:
        module: Path of the module.
        class_name: Qualified name of the class.
        attributes: What it has and the module may lack, and how much of each one unit accounts for.
        constants: The same, where no unit changes it.
    """

    module: str
    class_name: str
    attributes: tuple[Attribute, ...] = ()
    constants: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Sublayer:
    """What a constant can stand in for when a site keeps no unit at all: the sublayer's whole compute goes.

    Args:
        module: Path of the module that gives way. Where it holds the site's consumer, it becomes the constant; else it
            passes its input on, and the consumer becomes the constant.
        returns: How many values its forward returns; of several, the first is the output and the others become None.
        others: Parameters inside it that belong to no unit, such as norms of queries and keys; they leave with it.
    """

    module: str
    returns: int
    others: int = 0


@dataclass(frozen=True)
class SharedBias:
    """A bias with a row for each head that all layers share, such as one on relative positions.

    Args:
        module: Path of the module that is given the bias; it must pick the rows of its own heads.
        argument: Name of the keyword that it is given as, `[batch, heads, queries, keys]`.
    """

    module: str
    argument: str


@dataclass(frozen=True)
class Site:
    """One place where units live: a consumer linear layer and the layers that produce its input.

    Args:
        name: Path of the sublayer, unique within the model.
        kind: What the units are.
        layer: Index of the transformer layer, from 0.
        units: Number of units.
        width: Columns of the consumer that read one unit.
        consumer: Path of the consumer `nn.Linear`.
        outputs: The consumer's `out_features`.
        producers: The layers whose rows make the units.
        attributes: Integer attributes that must follow the number of units.
        consumer_bias: Whether the consumer has a bias. One without gets it when units leave, for the rest bias.
        sublayer: What gives way when no unit is left; None where one unit has to stay.
        tables: Parameters with a column for each unit.
        shared_bias: A bias of all layers from which the site's heads take their rows; None where there is none.
        successor: What takes a module's place when some units leave; None where attributes are enough.
    """

    name: str
    kind: Kind
    layer: int
    units: int
    width: int
    consumer: str
    outputs: int
    producers: tuple[Producer, ...]
    attributes: tuple[Attribute, ...] = ()
    consumer_bias: bool = True
    sublayer: Sublayer | None = None
    tables: tuple[BiasTable, ...] = ()
    shared_bias: SharedBias | None = None
    successor: Successor | None = None

    @property
    def unit_parameters(self) -> int:
        """Parameters that leave with one unit: producer rows, their biases, consumer columns, columns of tables."""
        others = self.width * self.outputs + sum(table.rows for table in self.tables)
        return sum(producer.parameters for producer in self.producers) + others

    def unit_macs(self, tokens: int) -> int:
        """Multiply-accumulates that leave with one unit, for an input of `tokens` tokens.

        Counts the linear layers and, for heads, QKᵀ and AV (`tokens`² × width each).
        """
        linear = sum(producer.macs for producer in self.producers) + self.width * self.outputs
        attention = 2 * tokens * self.width if self.kind == "heads" else 0
        return tokens * (linear + attention)

    def other_parameters(self, width: int) -> int:
        """Parameters beside the units' own that a cut to `width` units gains; negative when it loses some.

        A consumer without a bias gets one, and an emptied sublayer loses what belongs to none of its units.
        """
        gained = self.outputs if width < self.units and not self.consumer_bias else 0
        return gained - (self.sublayer.others if width == 0 and self.sublayer else 0)


@dataclass(frozen=True)
class Norm:
    """A norm over the model's width, whose gain and bias can follow the model's size.

    Args:
        module: Path of the module, which has a `weight` `[width]`.
        bias: Whether it has a `bias` `[width]`.
        offset: What the module adds to its weight to get its gain: 1 where it stores the difference from one.
    """

    module: str
    bias: bool
    offset: int = 0


@dataclass(frozen=True)
class Output:
    """The module that a model's token outputs come from; an output map can follow it.

    Args:
        module: Path of the module, the norm behind the last layer or at its end.
        width: Entries of one token's output.
    """

    module: str
    width: int


@dataclass(frozen=True)
class Anatomy:
    """All sites of one model, in order: a description, without any weights.

    Args:
        family: Name of the family that described the model.
        sites: The sites, attention before MLP, from the first layer to the last.
        pooling: The family's usual way from token outputs to an embedding.
        total_parameters: All parameters of the model.
        native_tokens: Tokens of a full-size input (text: the longest; images: patches and prefix tokens).
        fixed_macs_per_token: Multiply-accumulates outside the sites that grow with the tokens.
        fixed_macs: Multiply-accumulates outside the sites that every input costs.
        fixed_macs_per_pair: Multiply-accumulates outside the sites for each pair of tokens: attention without units.
        notes: What a user should know of it, such as why some heads can't leave; full sentences.
        objective: What of its outputs is used, so what a ranking should keep: `pooled`, or `pooled+tokens`.
        layers: Paths of the transformer layers, in order.
        output: Where the token outputs come from; None where nothing can follow it.
        norms: The norms of the layers over the model's width, and the one that the token outputs come from.
    """

    family: str
    sites: tuple[Site, ...]
    pooling: str
    total_parameters: int
    native_tokens: int
    fixed_macs_per_token: int = 0
    fixed_macs: int = 0
    notes: tuple[str, ...] = ()
    objective: str = "pooled"
    fixed_macs_per_pair: int = 0
    layers: tuple[str, ...] = ()
    output: Output | None = None
    norms: tuple[Norm, ...] = ()

    @property
    def units(self) -> int:
        """Number of units of all sites together."""
        return self.offsets[-1]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each site's units begin in a flat list of all units; the last entry is their number."""
        offsets = [0]
        for site in self.sites:
            offsets.append(offsets[-1] + site.units)
        return tuple(offsets)

    def slices(self) -> Iterator[tuple[Site, slice]]:
        """Yield each site with the slice of its units in a flat list of all units."""
        for site, start, stop in zip(self.sites, self.offsets, self.offsets[1:], strict=False):
            yield site, slice(start, stop)

    def unit(self, position: int) -> Unit:
        """Return the unit at `position` of the flat list of all units."""
        if not 0 <= position < self.units:
            raise IndexError(f"unit {position} of {self.units}")
        site = next(i for i, stop in enumerate(self.offsets[1:]) if position < stop)
        return Unit(site, position - self.offsets[site])

    @property
    def prunable_parameters(self) -> int:
        """Sum of the parameters of all units: what a sparsity is a fraction of."""
        return sum(site.units * site.unit_parameters for site in self.sites)

    def allows(self, widths: tuple[int, ...]) -> bool:
        """Say whether a cut can keep `widths` units: one for each site, none only where a constant can stand in."""
        return len(widths) == len(self.sites) and all(
            (0 if site.sublayer else 1) <= width <= site.units for width, site in zip(widths, self.sites, strict=True)
        )

    def macs(self, tokens: int | None = None, widths: tuple[int, ...] | None = None) -> int:
        """Multiply-accumulates for one input of the full model, or of one that keeps `widths` units at its sites.

        Counts linear layers, QKᵀ and AV, patch projections, poolers and heads; not norms, activations or softmax.

        Args:
            tokens: Length of the input in tokens; by default `native_tokens`.
            widths: Units kept at each site; by default all.
        """
        length = self.native_tokens if tokens is None else tokens
        kept = tuple(site.units for site in self.sites) if widths is None else widths
        units = sum(width * site.unit_macs(length) for width, site in zip(kept, self.sites, strict=True))
        return units + (self.fixed_macs_per_pair * length + self.fixed_macs_per_token) * length + self.fixed_macs
