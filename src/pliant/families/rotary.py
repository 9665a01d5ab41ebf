"""Models of texts that turn queries and keys by their positions, so have no table of positions to be measured by."""

from torch import nn

from pliant.families import bert
from pliant.families.layout import Surroundings


def surroundings(model: nn.Module, layers: tuple[str, ...]) -> Surroundings:
    """Count what lies beside the layers, and take the longest input from the configuration of the positions."""
    return bert.beside(model, layers, tokens(model))


def tokens(model: nn.Module) -> int:
    """Return how many tokens the positions were made for; 0 where the model has none."""
    for name, module in model.named_modules():
        if name.rpartition(".")[2] == "rotary_emb":
            return int(getattr(module, "config").max_position_embeddings)  # noqa: B009 - unknown to nn.Module
    return 0
