"""Model families: each file points at the sites of its models and holds no forward code."""

from pliant.families.registry import FAMILIES, describe
from pliant.families.zoo import ZOO, Encoder

__all__ = ["FAMILIES", "ZOO", "Encoder", "describe"]
