"""Speed of views and cuts of MiniLM against the untouched model, interleaved in one run; and the cost of switching.

Run: python -m benchmarks.speed [--sparsity 0.3,0.6] [--tokens 128] [--batch 32] [--rounds 15]
"""

import argparse
import copy
import gc
import tracemalloc

import torch

import pliant
from benchmarks.record import save
from pliant.checkpoint import DEMO_MODEL, open_checkpoint
from pliant.elastic import Elastic
from pliant.speed import Speed, measure


def rows(speed: Speed, batch: int) -> list[dict[str, object]]:
    """Return what the table of the documentation shows: all but the untouched model, against it."""
    sizes = [size for size in speed.sizes if size.form == "view" or (size.form == "cut" and size.sparsity)]
    found = sorted(sizes, key=lambda size: (size.sparsity, size.form != "view"))
    ratios = [(size, speed.speedup(size, batch), speed.macs_ratio(size)) for size in found]
    return [
        {
            "model": size.form,
            "sparsity": size.sparsity,
            "speedup": gained,
            "macs_ratio": promised,
            "share": gained / promised,
        }
        for size, gained, promised in ratios
    ]


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
    sparsities = [0.0, *(float(sparsity) for sparsity in options.sparsity.split(","))]
    speed = measure(
        elastic,
        untouched,
        [batch],
        sparsities,
        model=DEMO_MODEL,
        tokens=options.tokens,
        cuts=True,
        rounds=options.rounds,
    )
    found = rows(speed, options.batch)
    result = {
        "benchmark": "speed",
        "batch": options.batch,
        "tokens": options.tokens,
        "rows": found,
        "memory": {**usage, "share": (usage["objects_bytes"] + usage["tensors_bytes"]) / usage["model_bytes"]},
        "switching": speed.to_json()["switching"],
        "speed": speed.to_json(),
    }
    print(save(options.name, result))
    for row in found:
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()})
    print(speed.switching, result["memory"])


if __name__ == "__main__":
    main()
