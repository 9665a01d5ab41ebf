"""The classes of inputs, and which inputs are examples of them."""

import random
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from pliant.errors import InputError


@dataclass(frozen=True)
class Classes:
    """The class of each input; some inputs are examples, the others are to be told by them.

    Args:
        labels: The class of each input.
        examples: The indices of the examples.

    Raises:
        InputError: There are fewer than two classes, no examples, nothing else, or an example that doesn't exist.
    """

    labels: tuple[str, ...]
    examples: frozenset[int]

    def __post_init__(self) -> None:
        """Refuse what can't be told apart."""
        if len(set(self.labels)) < 2:
            raise InputError(f"Classes: {sorted(set(self.labels))}. At least two are needed to tell them apart.")
        wrong = [index for index in sorted(self.examples) if not 0 <= index < len(self.labels)]
        if wrong or not self.examples or len(self.examples) == len(self.labels):
            raise InputError(
                f"{len(self.examples)} examples (wrong: {wrong[:3]}) of {len(self.labels)} inputs. "
                "Some inputs must be examples, and some not."
            )

    @classmethod
    def halved(cls, labels: tuple[str, ...], seed: int = 0) -> "Classes":
        """Make every second input of each class an example, in random order; of an odd number the larger part.

        Raises:
            InputError: There are fewer than two classes, or no class has two inputs.
        """
        places: dict[str, list[int]] = {}
        for index, label in enumerate(labels):
            places.setdefault(label, []).append(index)
        generator = random.Random(seed)
        examples: set[int] = set()
        for label in sorted(places):
            generator.shuffle(places[label])
            examples.update(places[label][::2])
        return cls(labels, frozenset(examples))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The classes, sorted."""
        return tuple(sorted(set(self.labels)))

    @cached_property
    def codes(self) -> Tensor:
        """The position of each input's class in `names`, `[inputs]`."""
        position = {name: index for index, name in enumerate(self.names)}
        return torch.tensor([position[label] for label in self.labels])

    @cached_property
    def is_example(self) -> Tensor:
        """Which inputs are examples, bool `[inputs]`."""
        return torch.tensor([index in self.examples for index in range(len(self.labels))])
