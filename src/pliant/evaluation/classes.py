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
        InputError: There are fewer than two classes, in all or among the examples; no examples, nothing else, or an
            example that doesn't exist; or none of the other inputs' classes has an example.
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
        known = {self.labels[index] for index in self.examples}
        if len(known) < 2:
            raise InputError(f"All examples are of the class {min(known)!r:.60}. Give examples of two or more classes.")
        asked = {label for index, label in enumerate(self.labels) if index not in self.examples}
        if not asked & known:
            raise InputError(
                f"No class that is to be told, such as {min(asked)!r:.60}, has an example; the examples are of "
                f"{min(known)!r:.60} and others. Name classes alike in both."
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
        if len(places) > 1 and len(places) == len(labels):
            raise InputError(
                f"{len(labels)} inputs of as many classes: none is left to be told by the example of its class. Give "
                "a class two inputs, choose another column of classes, or pass examples of their own."
            )
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
