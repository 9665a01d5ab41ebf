"""Model families: each file points at the sites of its models and holds no forward code."""

from pliant.families.registry import FAMILIES, describe

__all__ = ["FAMILIES", "describe"]
