"""How long it takes to change an elastic model's size."""

import random
import time

from torch import nn

from pliant.budget import Cut
from pliant.elastic import Elastic
from pliant.speed.result import Switching
from pliant.speed.timing import median, percentile

_HIGHEST = 0.9
_TRIES = 3


def switching(elastic: Elastic, count: int = 300, highest: float = _HIGHEST) -> Switching:
    """Time changes to sizes drawn at random (seed 0): each once when it is new, and once when it was used before.

    Only sizes that no one has asked for yet count, so of a small model there may be fewer than `count`.

    Args:
        elastic: The elastic model; what it has cached is looked up too, so give a fresh one.
        count: How many sizes.
        highest: The highest sparsity that is drawn.
    """
    draw = random.Random(0)
    built: list[float] = []
    cached: list[float] = []
    seen: set[Cut] = set()
    for _ in range(_TRIES * count):
        sparsity = draw.uniform(0, highest)
        fresh, new = _timed(elastic, sparsity)
        again, same = _timed(elastic, sparsity)
        assert new is same
        cut = elastic.plan(sparsity=sparsity)
        if cut not in seen:
            seen.add(cut)
            built.append(fresh)
            cached.append(again)
        if len(seen) == count:
            break
    milliseconds = [[1000 * second for second in seconds] for seconds in (built, cached)]
    summaries = [at for values in milliseconds for at in (median(values), percentile(values, 0.99))]
    return Switching(len(built), *summaries)


def _timed(elastic: Elastic, sparsity: float) -> tuple[float, nn.Module]:
    start = time.perf_counter()
    found = elastic.at(sparsity=sparsity)
    return time.perf_counter() - start, found
