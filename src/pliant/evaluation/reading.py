"""Running the full model and all sizes over one list of inputs: every batch is made once and goes through all."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from pliant.batches import Batch, called, device_of, size, to_device, valid_tokens
from pliant.errors import InputError
from pliant.evaluation.embedding import check_embedding, check_embedding_pooling, evaluating
from pliant.evaluation.similarity import similarities
from pliant.files import digest
from pliant.pooling import pool

LOGITS = "logits"
"""In place of a pooling: what the model's own classification head gives."""


@dataclass(frozen=True, eq=False)
class Reading:
    """Inputs, how a model reads them, and what is taken from its result.

    Args:
        items: Texts, or image files or images.
        batches_of: Makes the model's inputs from items, in their order.
        pooling: How token outputs become one embedding: `cls`, `mean`, `last` or `pooler`; or `logits`.
        tokens: Whether the outputs of all tokens are compared with the full model's too.
        settings: What else decides what the models read, such as where texts are cut off; a part of `digest`.

    Raises:
        InputError: There are no items, or the pooling gives no single embedding.
    """

    items: Sequence[Any]
    batches_of: Callable[[Sequence[Any]], Iterable[Batch]]
    pooling: str
    tokens: bool = False
    settings: str = ""

    def __post_init__(self) -> None:
        """Refuse what gives no embeddings."""
        if self.pooling != LOGITS:
            check_embedding_pooling(self.pooling)
        if not self.items:
            raise InputError("There is nothing to measure on: 0 inputs. Give at least one.")

    @cached_property
    def digest(self) -> str:
        """What the inputs, and all that decides what models make of them, are known by.

        Raises:
            InputError: An image file can't be read.
        """
        total = hashlib.sha256(f"{self.pooling} {self.tokens} {self.settings}".encode())
        for item in self.items:
            total.update(_fingerprint(item))
        return total.hexdigest()

    @cached_property
    def order(self) -> list[int]:
        """The order in which the items are read.

        Of texts the longest come first: those of like length share a batch, and what doesn't fit in memory fails at
        once, not at the end.
        """
        lengths = [len(item) if isinstance(item, str) else 0 for item in self.items]
        return sorted(range(len(lengths)), key=lambda i: -lengths[i])


def _fingerprint(item: Any) -> bytes:
    if isinstance(item, str):
        return hashlib.sha256(item.encode()).digest()
    if isinstance(item, Path):
        try:
            return bytes.fromhex(digest(item))
        except OSError as error:
            raise InputError(f"{item} can't be read: {error.strerror}. Check its permissions.") from error
    # An image of Pillow.
    return hashlib.sha256(f"{item.mode} {item.size}".encode() + item.tobytes()).digest()


@dataclass(frozen=True)
class Outputs:
    """What a model gave for all inputs of a reading, in their order.

    Args:
        embeddings: One for each input, float32 `[inputs, width]`.
        token_cosines: Mean cosine of each input's token outputs to the full model's, `[inputs]`; None where they
            weren't compared.
    """

    embeddings: Tensor
    token_cosines: Tensor | None = None


class Store(Protocol):
    """Keeps the outputs of one model for one reading, in the order in which the inputs are read."""

    @property
    def done(self) -> int:
        """How many inputs it has outputs of."""
        ...

    def add_(self, embeddings: Tensor, token_cosines: Tensor | None) -> None:
        """Take one batch in."""
        ...

    def flush_(self) -> None:
        """Make sure that all is kept, whatever happens next."""
        ...

    def outputs(self, order: Sequence[int]) -> Outputs:
        """Return all outputs, the first of them for item `order[0]`, in the order of the items."""
        ...


@dataclass
class Collected:
    """A store in memory."""

    embeddings: list[Tensor] = field(default_factory=list)
    token_cosines: list[Tensor] = field(default_factory=list)
    done: int = 0

    def add_(self, embeddings: Tensor, token_cosines: Tensor | None) -> None:
        """Take one batch in."""
        self.embeddings.append(embeddings)
        if token_cosines is not None:
            self.token_cosines.append(token_cosines)
        self.done += len(embeddings)

    def flush_(self) -> None:
        """Do nothing: memory is kept by itself."""

    def outputs(self, order: Sequence[int]) -> Outputs:
        """Return all outputs, the first of them for item `order[0]`, in the order of the items."""
        return in_order(self.embeddings, self.token_cosines, order)


def in_order(embeddings: Sequence[Tensor], token_cosines: Sequence[Tensor], order: Sequence[int]) -> Outputs:
    """Return outputs in the order of the items, from batches of which the first begins with item `order[0]`."""
    places = torch.tensor(order).argsort()
    cosines = torch.cat(list(token_cosines))[places] if token_cosines else None
    return Outputs(torch.cat(list(embeddings))[places], cosines)


@dataclass(frozen=True)
class _Encoded:
    """What a model gives for one batch: embeddings, all tokens' outputs `[batch, tokens, width]`, which are real."""

    embeddings: Tensor
    tokens: Tensor | None = None
    valid: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Runner:
    """A model and what it has given so far; the model is only made once it is needed."""

    model: Callable[[], nn.Module]
    store: Store


def read(reading: Reading, full: Runner, slim: Sequence[Runner], progress: Callable[[int], None]) -> None:
    """Run all models over the inputs that they haven't seen yet.

    Args:
        reading: The inputs.
        full: The full model.
        slim: The sizes.
        progress: Called after each batch with the number of inputs done.

    Raises:
        InputError: The model can't take a batch, an embedding is not finite, or `batches_of` dropped or added inputs.
    """
    runners = (full, *slim)
    done = min(runner.store.done for runner in runners)
    items = [reading.items[i] for i in reading.order[done:]]
    try:
        for batch in reading.batches_of(items) if items else ():
            _read_batch(reading, batch, done, full, slim)
            done += size(batch)
            progress(done)
    finally:
        # Whatever ends this, even a signal: what is done needn't be done again.
        for runner in runners:
            runner.store.flush_()
    if done != len(reading.items):
        raise InputError(
            f"The batches hold {done} inputs for {len(reading.items)} items. Every item must become one input; "
            "don't drop the last batch."
        )


def _read_batch(reading: Reading, batch: Batch, first: int, full: Runner, slim: Sequence[Runner]) -> None:
    waiting = [runner for runner in slim if runner.store.done <= first]
    expected: _Encoded | None = None
    if full.store.done <= first or (reading.tokens and waiting):
        expected = _encoded(full.model(), batch, reading, first)
    if expected is not None and full.store.done <= first:
        full.store.add_(expected.embeddings, _token_cosines(expected, expected))
    for runner in waiting:
        found = _encoded(runner.model(), batch, reading, first)
        runner.store.add_(found.embeddings, None if expected is None else _token_cosines(expected, found))


def _encoded(model: nn.Module, batch: Batch, reading: Reading, first: int) -> _Encoded:
    inputs = to_device(batch, device_of(model))
    with evaluating(model):
        outputs = called(model, inputs)
        found = _logits(outputs) if reading.pooling == LOGITS else pool(outputs, inputs, reading.pooling)
        embeddings = found.float().cpu()
        check_embedding(embeddings, first)
        if not reading.tokens:
            return _Encoded(embeddings)
        tokens = pool(outputs, inputs, "tokens")
        # A model that gives one vector for each input has a single "token".
        tokens = tokens.unsqueeze(1) if tokens.dim() == 2 else tokens
        return _Encoded(embeddings, tokens.float(), valid_tokens(inputs, tokens))


def _logits(outputs: Any) -> Tensor:
    """Return `[batch, classes]`."""
    found = outputs.get(LOGITS) if isinstance(outputs, Mapping) else outputs
    if not isinstance(found, Tensor) or found.dim() != 2:
        raise InputError("The model has no classification head. Leave out the task head, or save the model with one.")
    return found


def _token_cosines(full: _Encoded, slim: _Encoded) -> Tensor | None:
    """Return the mean over each input's real tokens `[batch]`."""
    if full.tokens is None or slim.tokens is None or full.valid is None:
        return None
    cosines = torch.where(full.valid, similarities(full.tokens, slim.tokens), 0.0)
    return (cosines.sum(dim=1) / full.valid.sum(dim=1).clamp(min=1)).cpu()
