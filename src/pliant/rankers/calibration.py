"""What every ranker works with: the model, its calibration inputs, and its rest values."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor, nn

from pliant.anatomy import Anatomy
from pliant.batches import (
    Batch,
    device_of,
    forward,
    hold_out,
    shapes,
    size,
    to_device,
    valid_tokens,
)
from pliant.errors import InputError
from pliant.gates import Gates, consumer_hooks, gated
from pliant.objectives import Objective
from pliant.ranking import Rest

_OBSERVED = 24
# Gradients of a mean cosine are about 1e-6 at one token's activations, which is below float16's normal range.
_FLOAT16_SCALE = 1024.0


class Stream:
    """Calibration batches: the first ones held out, the others given out in a cycle, one for each step."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        """Hold out a quarter of the batches, at most 8.

        Args:
            batches: Any iterable. One that can be read only once is kept as far as it was read.

        Raises:
            InputError: There are fewer than two batches, or they aren't batches.
        """
        self.held_out, others = hold_out(batches)
        self._once: Iterator[Batch] | None = iter(batches) if iter(batches) is batches else None
        self._kept: list[Batch] = [] if self._once is None else others
        self._source = batches
        self._skipped = len(self.held_out)

    def training(self, first: int = 0) -> Iterator[Batch]:
        """Yield the batches that aren't held out, over and over, beginning with number `first`."""
        return islice(self._endless(), first, None)

    def _endless(self) -> Iterator[Batch]:
        while True:
            empty = True
            for batch in self._one_pass():
                empty = False
                yield batch
            if empty:
                raise InputError(
                    f"The calibration batches, a {type(self._source).__name__}, were empty when read again. "
                    "Pass a list, or an iterator, which is read only once."
                )

    def _one_pass(self) -> Iterator[Batch]:
        if self._once is None:
            yield from islice(self._source, self._skipped, None)
            return
        position = 0
        while position < len(self._kept) or self._read_one():
            yield self._kept[position]
            position += 1

    def _read_one(self) -> bool:
        """Keep one more batch of those that can be read only once; say whether there was one."""
        assert self._once is not None
        more = list(islice(self._once, 1))
        self._kept += more
        return bool(more)


@dataclass(frozen=True, eq=False)
class Calibration:
    """One model with everything that a ranker may look at.

    Args:
        model: The model, frozen.
        anatomy: Its anatomy.
        stream: Calibration batches.
        objective: What dimmed models should be good at.
        rest: For each site, the rest values `[units × width]`, on the model's device.
        costs: Prunable parameters of each unit, float64 `[units]`, on the model's device.
        seed: Everything random follows from it.
        checkpointing: Whether layers run again in the backward pass instead of keeping their activations.
        watch: Called by a ranker that takes many steps, after each of them: the number of steps done, and a loss.
    """

    model: nn.Module
    anatomy: Anatomy
    stream: Stream
    objective: Objective
    rest: tuple[Tensor, ...]
    costs: Tensor
    seed: int
    checkpointing: bool = False
    watch: Callable[[int, float], None] | None = None

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return device_of(self.model)

    @property
    def loss_scale(self) -> float:
        """What a loss is multiplied by before its backward pass, so that float16 doesn't round small gradients away."""
        halves = any(parameter.dtype == torch.float16 for parameter in self.model.parameters())
        return _FLOAT16_SCALE if halves else 1.0

    def gated(self, rest: tuple[Tensor, ...]) -> AbstractContextManager[Gates]:
        """Dim the model's units while the block runs, at rest values `[units × width]` for each site."""
        return gated(self.model, self.anatomy, rest, checkpointing=self.checkpointing)

    def observed(self, count: int = _OBSERVED) -> Iterator[Batch]:
        """Yield `count` training batches on the model's device, beginning anew where there are fewer."""
        return observed(self.stream, self.device, count)

    def generator(self, salt: int = 0) -> torch.Generator:
        """Return a random generator on the CPU that depends on the seed and on `salt` alone."""
        return torch.Generator().manual_seed((self.seed * 1_000_003 + salt) % 2**63)


def unit_costs(anatomy: Anatomy, device: torch.device) -> Tensor:
    """Return each unit's parameters, float64 `[units]`."""
    costs = torch.empty(anatomy.units, dtype=torch.float64)
    for site, units in anatomy.slices():
        costs[units] = site.unit_parameters
    return costs.to(device)


def observed(stream: Stream, device: torch.device, count: int = _OBSERVED) -> Iterator[Batch]:
    """Yield `count` training batches on `device`, beginning anew where there are fewer."""
    for batch in islice(stream.training(), count):
        yield to_device(batch, device)


def rest_values(model: nn.Module, anatomy: Anatomy, batches: Iterable[Batch], kind: Rest) -> tuple[Tensor, ...]:
    """Return what stands in for removed units: for each site its consumer's mean input, or zeros.

    Args:
        model: The model, frozen.
        anatomy: Its anatomy.
        batches: Inputs on the model's device; padding tokens don't count.
        kind: `mean` or `zero`.

    Returns:
        One float32 tensor `[units × width]` for each site, on the model's device.

    Raises:
        InputError: The kind is unknown, the model can't take a batch, or no batch has a valid token.
    """
    if kind not in ("mean", "zero"):
        raise InputError(f"Unknown rest {kind!r}. Allowed: mean, zero.")
    device = device_of(model)
    totals = [torch.zeros(site.units * site.width, dtype=torch.float64, device=device) for site in anatomy.sites]
    if kind == "zero":
        return tuple(total.float() for total in totals)
    counts = [0 for _ in totals]

    def add(index: int, inputs: Tensor) -> None:
        totals[index] += inputs.sum(dim=0, dtype=torch.float64)
        counts[index] += len(inputs)

    for batch in batches:
        take_inputs(model, anatomy, batch, add)
    check_seen(counts)
    return tuple((total / count).float() for total, count in zip(totals, counts, strict=True))


def check_seen(counts: Sequence[int]) -> None:
    """Raise `InputError` unless each site's consumer has read some valid token."""
    if not all(counts):
        raise InputError("The calibration inputs have no valid token: every attention mask is zero. Pass others.")


def take_inputs(model: nn.Module, anatomy: Anatomy, batch: Batch, take: Callable[[int, Tensor], None]) -> None:
    """Give out what each consumer reads of one batch, without the padding.

    Args:
        model: The model, frozen.
        anatomy: Its anatomy.
        batch: Inputs on the model's device.
        take: Called with a site's index and its consumer's inputs at valid tokens `[tokens, units × width]`; several
            times where an MLP reads one stretch of the tokens after the other.

    Raises:
        InputError: The model can't take the batch.
    """
    seen = [0 for _ in anatomy.sites]
    valid: Tensor | None = None

    def cut(index: int, inputs: Tensor) -> None:
        nonlocal valid
        tokens = inputs.reshape(size(batch), -1, inputs.shape[-1])
        # The first to be called is an attention, which reads all tokens at once. With chunk_size_feed_forward, an MLP
        # reads one stretch of them after the other.
        valid = valid_tokens(batch, tokens) if valid is None else valid
        chosen = valid[:, seen[index] : seen[index] + tokens.shape[1]]
        seen[index] += tokens.shape[1]
        take(index, tokens[chosen])

    # Not inference_mode: some models keep what they make at a first call, such as positions, and train with it later.
    with torch.no_grad(), consumer_hooks(model, anatomy, cut):
        try:
            forward(model, batch)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
            reason = " ".join(str(error).split()).removesuffix(".")
            raise InputError(
                f"The model can't take the calibration batch with {shapes(batch)}: {reason:.300}. "
                "Do the tokenizer or processor, the length and the types suit it?"
            ) from error
