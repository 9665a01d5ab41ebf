"""Speed of views and cuts of MiniLM against the untouched model, interleaved in one run; and the cost of switching.

Run: python -m benchmarks.speed [--sparsity 0.3,0.6] [--tokens 128] [--batch 32] [--rounds 15]
"""

import argparse
import copy
import gc
import random
import statistics
import time
import tracemalloc

import torch
from torch import nn

import pliant
from benchmarks.record import save
from pliant.checkpoint import DEMO_MODEL, open_checkpoint
from pliant.elastic import Elastic


def _seconds(model: nn.Module, batch: dict[str, torch.Tensor]) -> float:
    start = time.perf_counter()
    model(**batch)
    return time.perf_counter() - start


def _interleaved(models: dict[str, nn.Module], batch: dict[str, torch.Tensor], rounds: int) -> dict[str, float]:
    """Return each model's median seconds; all models take turns, so that a busy moment hits all of them."""
    taken: dict[str, list[float]] = {name: [] for name in models}
    with torch.inference_mode():
        for turn in range(rounds + 2):
            for name, model in models.items():
                seconds = _seconds(model, batch)
                if turn >= 2:
                    taken[name].append(seconds)
    return {name: statistics.median(values) for name, values in taken.items()}


def speed(untouched: nn.Module, elastic: Elastic, sparsities: list[float], batch: dict[str, torch.Tensor], rounds: int):
    tokens = batch["input_ids"].shape[1]
    models: dict[str, nn.Module] = {"original": untouched, "view 0": elastic.at(sparsity=0.0)}
    for sparsity in sparsities:
        models[f"view {sparsity}"] = elastic.at(sparsity=sparsity)
        models[f"cut {sparsity}"] = elastic.cut(sparsity=sparsity)
    seconds = _interleaved(models, batch, rounds)
    full = elastic.anatomy.macs(tokens)
    rows = [{"model": "view", "sparsity": 0.0, "speedup": seconds["original"] / seconds["view 0"], "macs_ratio": 1.0}]
    for sparsity in sparsities:
        promised = full / elastic.cost(elastic.plan(sparsity=sparsity), tokens).macs
        for kind in ("view", "cut"):
            gained = seconds["original"] / seconds[f"{kind} {sparsity}"]
            rows.append({"model": kind, "sparsity": sparsity, "speedup": gained, "macs_ratio": promised})
    for row in rows:
        row["share"] = row["speedup"] / row["macs_ratio"]
    return rows


def switching(elastic: Elastic, count: int = 300) -> dict[str, float]:
    """Return milliseconds to build a view and to look up a cached one."""
    draw = random.Random(0)
    fresh, cached = [], []
    for _ in range(count):
        sparsity = draw.uniform(0, 0.9)
        start = time.perf_counter()
        elastic.at(sparsity=sparsity)
        middle = time.perf_counter()
        elastic.at(sparsity=sparsity)
        cached.append(time.perf_counter() - middle)
        fresh.append(middle - start)
    milliseconds = {"build": fresh, "cached": cached}
    return {
        f"{name}_{label}_ms": 1000 * sorted(values)[min(count - 1, int(count * at))]
        for name, values in milliseconds.items()
        for label, at in (("median", 0.5), ("p99", 0.99))
    }


def memory(elastic: Elastic, views: int = 12) -> dict[str, float]:
    """Return what a dozen live views take beside one model: Python's objects and the tensors of their own."""
    total = sum(p.numel() * p.element_size() for p in elastic.model.parameters())
    gc.collect()
    tracemalloc.start()
    live = [elastic.at(sparsity=0.05 + 0.07 * index) for index in range(views)]
    gc.collect()
    objects = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    shared = {p.untyped_storage().data_ptr() for p in elastic.model.parameters()}
    own = {
        p.untyped_storage().data_ptr(): p.untyped_storage().nbytes()
        for view in live
        for p in view.parameters()
        if p.untyped_storage().data_ptr() not in shared
    }
    return {"views": views, "objects_bytes": objects, "tensors_bytes": sum(own.values()), "model_bytes": total}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sparsity", default="0.2,0.4,0.6,0.8")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--name", default="speed_minilm_cpu")
    options = parser.parse_args()
    model = open_checkpoint(DEMO_MODEL).model
    untouched = copy.deepcopy(model)
    ids = torch.randint(1000, 30000, (options.batch, options.tokens), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    ranking = pliant.rank(model, [{"input_ids": ids[i : i + 4]} for i in range(0, 16, 4)], ranker="fisher")
    elastic = pliant.Elastic(model, ranking)
    usage = memory(elastic)
    rows = speed(untouched, elastic, [float(s) for s in options.sparsity.split(",")], batch, options.rounds)
    result = {
        "benchmark": "speed",
        "batch": options.batch,
        "tokens": options.tokens,
        "rows": rows,
        "switching": switching(elastic),
        "memory": {**usage, "share": (usage["objects_bytes"] + usage["tensors_bytes"]) / usage["model_bytes"]},
    }
    print(save(options.name, result))
    for row in rows:
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()})
    print(result["switching"], result["memory"])


if __name__ == "__main__":
    main()
