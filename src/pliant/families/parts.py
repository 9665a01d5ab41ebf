"""Small pieces that a layout is written with: pointers at modules that are packed or give way."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Packs:
    """A linear layer that packs several projections of one shape, one below the other.

    Args:
        path: The layer.
        parts: How many projections it packs.
    """

    path: str
    parts: int


@dataclass(frozen=True)
class Gives:
    """A module that can give way to a constant when its site keeps no unit.

    Args:
        path: The module. Either it holds the site's output projection, or its output is what that reads.
        returns: How many values its forward returns.
    """

    path: str
    returns: int = 1
