"""Timing models that take turns, so that a busy moment hits all of them alike."""

import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from pliant.batches import Batch, called, device_of, size
from pliant.errors import InputError
from pliant.machine import synchronize

WARM_UP = 3
"""Turns that come before those that count."""

_LEAST, _MOST = 10, 200

Watch = Callable[[float], None]
"""Called after each turn of all models with the fraction of all turns that is done."""


def interleaved(
    models: Mapping[str, nn.Module],
    batch: Batch,
    *,
    rounds: int | None = None,
    limit: float = 15.0,
    watch: Watch = lambda fraction: None,
) -> dict[str, list[float]]:
    """Return how long each model takes for one batch, in seconds, once for each turn.

    In each turn every model comes once, in an order drawn anew (seed 0). Three turns come first that don't count. The
    device is waited for before and after each call, and no garbage is collected meanwhile.

    Args:
        models: The models by name, on one device.
        batch: What each is called with, on that device.
        rounds: How many turns count; by default as many as fit into `limit`, from 10 to 200.
        limit: Seconds that all turns may take together.
        watch: Called after each turn with the fraction that is done.

    Raises:
        InputError: There are no models or no turns, or a model can't take the batch.

    Example:
        >>> import torch
        >>> small, large = torch.nn.Linear(8, 8), torch.nn.Linear(8, 64)
        >>> taken = interleaved({"small": small, "large": large}, torch.randn(2, 8), rounds=5)
        >>> {name: len(seconds) for name, seconds in taken.items()}
        {'small': 5, 'large': 5}
    """
    if not models or (rounds is not None and rounds < 1):
        raise InputError(f"{len(models)} models and {rounds} turns: timing needs at least one of each.")
    draw, order = random.Random(0), list(models)
    taken: dict[str, list[float]] = {name: [] for name in models}
    with torch.inference_mode(), _no_garbage_collection():
        warming = [sum(_seconds(models[name], batch) for name in order) for _ in range(WARM_UP)]
        count = rounds or max(_LEAST, min(_MOST, int(limit / max(warming[-1], 1e-9))))
        for turn in range(count):
            draw.shuffle(order)
            for name in order:
                taken[name].append(_seconds(models[name], batch))
            watch((turn + 1) / count)
    return taken


def _seconds(model: nn.Module, batch: Batch) -> float:
    device = device_of(model)
    synchronize(device)
    start = time.perf_counter()
    try:
        called(model, batch)
    except torch.OutOfMemoryError as error:
        raise InputError(f"A batch of {size(batch)} doesn't fit into the memory of {device}. Take less.") from error
    synchronize(device)
    return time.perf_counter() - start


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collect garbage now, and none while the block runs."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of all values don't exceed: the nearest rank.

    Example:
        >>> percentile([3.0, 1.0, 2.0], 0.99)
        3.0
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
