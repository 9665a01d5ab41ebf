"""Small pieces that a layout is written with: pointers at modules that are packed, give way, or must be something."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Packs:
    """A linear layer that packs several projections of one shape, one below the other.

    Args:
        path: The layer.
        parts: How many projections it packs.
        biases: For each of them, the path of a parameter outside the layer that is its bias, or None; empty where the
            layer holds its bias itself, or there is none at all.
    """

    path: str
    parts: int
    biases: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class Gives:
    """A module that can give way to a constant when its site keeps no unit.

    Args:
        path: The module. Either it holds the site's output projection, or its output is what that reads.
        returns: How many values its forward returns.
    """

    path: str
    returns: int = 1


@dataclass(frozen=True)
class Becomes:
    """A module whose place another class of its library takes when heads leave; see `pliant.anatomy.Successor`.

    Args:
        path: The module.
        class_name: Qualified name of the other class.
        counts: Integer attributes that the other class needs, of which one unit accounts for one.
        widths: The same, where one unit accounts for its width.
        constants: Names and values of the others.
    """

    path: str
    class_name: str
    counts: tuple[str, ...] = ()
    widths: tuple[str, ...] = ()
    constants: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Has:
    """A module that must be of certain classes for a layout to fit: others with parts of the same names differ.

    Args:
        path: The module; where there is none, the layout may fit all the same.
        classes: Qualified class names.
    """

    path: str
    classes: frozenset[str]
