"""pliant turns a pretrained transformer encoder into an elastic one: one set of weights, any size."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pliant import families
    from pliant.anatomy import Anatomy
    from pliant.artefacts import load_cut
    from pliant.budget import Alignment, Budget, Cut
    from pliant.elastic import Elastic, load
    from pliant.errors import PliantError
    from pliant.families import describe
    from pliant.rankers.rank import rank
    from pliant.ranking import Ranking

__all__ = [
    "Alignment",
    "Anatomy",
    "Budget",
    "Cut",
    "Elastic",
    "PliantError",
    "Ranking",
    "describe",
    "families",
    "load",
    "load_cut",
    "rank",
]

# Looked up when first asked for: a server that only runs views never loads the optimiser.
_HOMES = {
    "Alignment": "pliant.budget",
    "Anatomy": "pliant.anatomy",
    "Budget": "pliant.budget",
    "Cut": "pliant.budget",
    "Elastic": "pliant.elastic",
    "PliantError": "pliant.errors",
    "Ranking": "pliant.ranking",
    "describe": "pliant.families",
    "load": "pliant.elastic",
    "load_cut": "pliant.artefacts",
    "rank": "pliant.rankers.rank",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its home."""
    if name == "families":
        return import_module("pliant.families")
    if name not in _HOMES:
        raise AttributeError(f"module 'pliant' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
