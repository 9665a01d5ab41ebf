"""Modules that stand in for a model's own where a cut leaves nothing, or less than one matrix, of them."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pliant.output_maps import OutputMap


class Packed(nn.Module):
    """A linear layer that packs several projections, of each of which only the first rows are kept.

    Their weights stay where they are, so a view shares them: one product for each part, put side by side.
    """

    def __init__(self, linear: nn.Linear, parts: int, rows: int, biases: Sequence[nn.Parameter | None] = ()) -> None:
        """Share the first `rows` rows of each of `parts` equal parts of a layer's weight and bias.

        Args:
            linear: The layer.
            parts: How many parts it packs.
            rows: How many rows of each are kept.
            biases: Biases `[rows]` that lie outside the layer, in place of its own; None for a part without one.
        """
        super().__init__()
        self.in_features, self.out_features = linear.in_features, parts * rows
        self.weights = nn.ParameterList(self._firsts(linear.weight, parts, rows))
        own = [] if linear.bias is None else self._firsts(linear.bias, parts, rows)
        # None stays what it is, an entry without a parameter.
        self.biases = nn.ParameterList(biases or own)
        self.train(linear.training)

    @staticmethod
    def _firsts(parameter: Tensor, parts: int, rows: int) -> list[nn.Parameter]:
        learns = parameter.requires_grad
        return [nn.Parameter(part[:rows], learns) for part in parameter.detach().chunk(parts)]

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the parts' outputs side by side, `[..., parts × rows]`."""
        parts = zip(self.weights, list(self.biases) or [None] * len(self.weights), strict=True)
        return torch.cat([functional.linear(inputs, weight, bias) for weight, bias in parts], dim=-1)

    @property
    def is_linear(self) -> bool:
        """Whether one linear layer can hold the same parameters: all parts have a bias, or none has."""
        return len({bias is None for bias in self.biases}) < 2

    def linear(self) -> nn.Linear:
        """Return the one linear layer that this is, with weights of its own."""
        assert self.is_linear
        biases = [bias for bias in self.biases if bias is not None]
        made = nn.Linear(self.in_features, self.out_features, len(biases) > 0, device="meta")
        made.weight = nn.Parameter(torch.cat(list(self.weights)).detach(), self.weights[0].requires_grad)
        if biases:
            made.bias = nn.Parameter(torch.cat(biases).detach(), biases[0].requires_grad)
        return made.train(self.training)


class PicksHeads(nn.Module):
    """A module that takes the rows of its own heads from a bias that all layers share, and then is what it was.

    It has the parts, the names and the attributes of the module that it stands in for, and runs that one's forward.
    """

    heads: Tensor

    def __init__(self, module: nn.Module, argument: str, heads: Tensor) -> None:
        """Take over the parts of `module`, and of what it gets as `argument` pick the rows `heads` `[units]`."""
        super().__init__()
        # What `Module.compile` left there runs the module itself.
        self.__dict__.update(vars(module) | {"_compiled_call_impl": None})
        self._buffers = self._buffers.copy()
        self.stock = type(module)
        self.argument = argument
        self.register_buffer("heads", heads)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Return what the stock module does with its heads' rows of the bias `[batch, heads, queries, keys]`."""
        if named.get(self.argument) is not None:
            named[self.argument] = named[self.argument].index_select(1, self.heads)
        return self.stock.forward(self, *inputs, **named)


class Mapped(nn.Module):
    """A norm whose output y becomes y + W y + b."""

    def __init__(self, norm: nn.Module, output_map: OutputMap) -> None:
        """Put a map behind a norm, and share its weights.

        Args:
            norm: The norm.
            output_map: What its outputs go through.
        """
        super().__init__()
        self.norm = norm
        self.map = nn.Linear(len(output_map.bias), len(output_map.bias), device="meta")
        learns = any(parameter.requires_grad for parameter in norm.parameters())
        self.map.weight = nn.Parameter(output_map.weight, learns)
        self.map.bias = nn.Parameter(output_map.bias, learns)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the mapped outputs `[..., width]`."""
        outputs = self.norm(inputs)
        return outputs + self.map(outputs)


class Constant(nn.Module):
    """An emptied sublayer: its output is the same for every token, whatever it reads."""

    def __init__(self, bias: nn.Parameter, returns: int) -> None:
        """Return `bias` `[width]` for every token, as the first of `returns` values."""
        super().__init__()
        self.bias = bias
        self.returns = returns

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Return the constant `[..., width]` for an input `[..., any width]`."""
        tokens = _first_tensor(inputs, named)
        # A copy, since who gets the output may write into it; what is only expanded is still the parameter.
        return _returned(self.bias.expand(*tokens.shape[:-1], -1).clone(), self.returns)


class Passthrough(nn.Module):
    """What produced the input of an emptied consumer: it hands on what it reads."""

    def __init__(self, returns: int) -> None:
        """Return the input as the first of `returns` values."""
        super().__init__()
        self.returns = returns

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Return the first input."""
        return _returned(_first_tensor(inputs, named), self.returns)


def _first_tensor(inputs: tuple[Any, ...], named: dict[str, Any]) -> Tensor:
    return next(value for value in (*inputs, *named.values()) if isinstance(value, Tensor))


def _returned(output: Tensor, returns: int) -> Any:
    return output if returns == 1 else (output, *[None] * (returns - 1))
