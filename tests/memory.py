"""Measures, in a process of its own, how much private memory work on a model needs; prints MiB as JSON.

Pages of a mapped file don't count: the system takes them back whenever it needs them.
"""

import gc
import json
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import pliant
from pliant.checkpoint import DTYPES, open_checkpoint
from pliant.families import describe
from pliant.rankers.soft_mask import SoftMask
from pliant.ranking import Ranking, fingerprint, sampled

_PRIVATE = re.compile(r"RssAnon:\s+(\d+) kB")


def private() -> float:
    """Private memory of this process, MiB."""
    found = _PRIVATE.search(Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def growth(work: Callable[[], Any]) -> float:
    """What some work needs at its peak, beyond what was there before it."""
    gc.collect()
    before, seen, done = private(), [private()], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            seen.append(private())

    watching = threading.Thread(target=watch)
    watching.start()
    kept = work()
    seen.append(private())
    done.set()
    watching.join()
    del kept
    return max(seen) - before


def batches() -> list[dict[str, torch.Tensor]]:
    return [{"input_ids": torch.arange(2).reshape(1, 2)}] * 2


def any_ranking(model: nn.Module) -> Ranking:
    anatomy = describe(model)
    rest = tuple(torch.zeros(site.units * site.width) for site in anatomy.sites)
    scores = torch.rand(anatomy.units, generator=torch.Generator().manual_seed(0))
    return Ranking(scores, rest, "zero", fingerprint(model, anatomy), {}, sampled(model, anatomy))


def main() -> None:
    small, large = sys.argv[1:]
    torch.set_num_threads(1)
    # What is imported on the way, and what torch sets up for itself, is there before the first measurement.
    first = open_checkpoint(small).model
    pliant.rank(first, batches(), steps=1)
    pliant.Elastic(first, any_ranking(first))
    grown = {f"open {dtype}": growth(lambda dtype=dtype: open_checkpoint(large, dtype)) for dtype in DTYPES}
    model = open_checkpoint(large).model
    # On many CPUs, torch multiplies bfloat16 so slowly that its turn isn't worth the wait.
    if model.dtype == torch.float32:
        settings = SoftMask(steps=1, sparsities=1, ladder=(0.5,))
        grown["rank"] = growth(lambda: pliant.rank(model, batches(), settings=settings))
    ranking = any_ranking(model)
    grown["elastic"] = growth(lambda: pliant.Elastic(model, ranking).at(sparsity=0.5))
    print(json.dumps(grown))


if __name__ == "__main__":
    main()
