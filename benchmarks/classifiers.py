"""Every ranker, with each compensation, on the larger of two classifiers; and that one cut to the smaller one's size.

The classifiers are those of `benchmarks.fashion`. pliant ranks the larger one's encoder by its class output, without
labels, on training images that were kept out of training; the classification layer stays as it is. The test images say
how near each size's class output is to the full model's, how often the size is right, and how often it says the same.

A run is a ranker, with a comma and a preset or a compensation where they aren't its usual ones; with ` + output map`,
it is measured without and with output maps.

Run: python -m benchmarks.classifiers [--seeds 0,1,2] [--runs 'soft-mask + output map;fisher, learned;...'], or several
of them side by side. What each run finds is kept beside the weights, and the result file is made of all that is there:
so it goes on where it was stopped. Remove the folder `runs` there to begin anew.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch
from torch import Tensor, nn

import pliant
from benchmarks.fashion import WEIGHTS, Images, classifier, directory, fashion, inputs
from benchmarks.record import MAPPED, commit, order, save, wishes
from pliant.anatomy import Anatomy
from pliant.batches import Batch
from pliant.compensation import LADDER, fit_output_maps
from pliant.evaluation.curve import Point
from pliant.evaluation.embedding import embed
from pliant.evaluation.metric import mean_metric
from pliant.evaluation.similarity import similarities
from pliant.files import replacing
from pliant.rankers.rank import SCORERS

SPARSITIES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
DEFAULT = f"soft-mask{MAPPED}"
"""What `pliant rank` makes by default."""

RUNS = (
    DEFAULT,
    f"soft-mask, best{MAPPED}",
    "soft-mask, measured",
    f"fisher{MAPPED}",
    *(f"{ranker}, learned{MAPPED}" for ranker in SCORERS),
    *(ranker for ranker in SCORERS if ranker != "fisher"),
)
LABELS = order(RUNS)
AS_SMALL_IN = ("parameters", "macs")
"""What a cut can have as much of as the smaller classifier."""

LABELS = tuple(f"{run}{suffix}" for run in RUNS for suffix in (MAPPED, ""))

Values = dict[str, Tensor]
"""What each test image says of one size, `[images]` each: `cosine`, `top1` and `agreement`."""


@dataclass(frozen=True)
class Full:
    """What the full model makes of the test images.

    Args:
        batches: What it reads.
        classes: What the images show `[images]`.
        head: The classification layer, for the class outputs of every size.
        outputs: Its class outputs `[images, width]`.
    """

    batches: Sequence[Batch]
    classes: Tensor
    head: nn.Module
    outputs: Tensor

    def said(self, outputs: Tensor) -> Tensor:
        """Return the classes that the head sees in class outputs."""
        with torch.no_grad():
            return self.head(outputs).argmax(dim=1)

    def values(self, encoder: nn.Module) -> Values:
        """Compare a size with the full model, image by image."""
        outputs = embed(encoder, self.batches, "cls")
        said = self.said(outputs)
        return {
            "cosine": similarities(self.outputs, outputs),
            "top1": (said == self.classes).float(),
            "agreement": (said == self.said(self.outputs)).float(),
        }


def batches_of(pixels: Tensor, size: int) -> list[Batch]:
    return [{"pixel_values": inputs(part)} for part in pixels.split(size)]


def calibration(pixels: Tensor, seed: int, size: int = 32) -> list[Batch]:
    """Return the calibration images in an order of their own for each seed, and so with others held out."""
    order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(seed))
    return batches_of(pixels[order], size)


def full_model(model: Any, test: Images) -> Full:
    batches = batches_of(test.pixels, 250)
    return Full(batches, test.classes, model.classifier, embed(model.vit, batches, "cls"))


def point(elastic: pliant.Elastic, sparsity: float, values: Values) -> dict[str, Any]:
    cost = elastic.cost(elastic.plan(sparsity=sparsity))
    metrics = {name: mean_metric(found) for name, found in values.items()}
    return Point(sparsity, cost.sparsity, cost.parameters, cost.macs, metrics).to_json()


def sparsity_within(elastic: pliant.Elastic, what: str, limit: int) -> float:
    """Return the lowest sparsity, in thousandths, whose cut has no more parameters or MACs, its output map included."""
    assert elastic.anatomy.output is not None
    width, tokens = elastic.anatomy.output.width, elastic.anatomy.native_tokens
    of_map = {"parameters": width * (width + 1), "macs": tokens * width * width}[what]
    costs = ((s / 1000, elastic.cost(elastic.plan(sparsity=s / 1000))) for s in range(1, 1000))
    return next(sparsity for sparsity, cost in costs if getattr(cost, what) + of_map <= limit)


class Judged(NamedTuple):
    """What the result file says of one ranker, and what each test image says of each size `[sizes, images]`."""

    run: dict[str, Any]
    values: Values


def ranked_and_measured(
    label: str, seed: int, model: Any, batches: list[Batch], full: Full, small: Anatomy, steps: int | None = None
) -> Iterator[Judged]:
    """Rank and measure, and once more with output maps where they are asked for.

    Args:
        label: One of `RUNS`.
        seed: Of the search.
        model: The larger classifier, which is changed.
        batches: What to calibrate with.
        full: What the full model makes of the test images.
        small: The smaller classifier's encoder, whose parameters and MACs are two more sizes to measure at.
        steps: Of the search, in place of the preset's.
    """
    start = time.perf_counter()
    ranking = pliant.rank(model.vit, batches, seed=seed, steps=steps, **wishes(label))
    seconds = time.perf_counter() - start
    elastic = pliant.Elastic(model.vit, ranking)
    limits = {"parameters": small.total_parameters, "macs": small.macs()}
    matched = {what: sparsity_within(elastic, what, limits[what]) for what in AS_SMALL_IN}

    def judged(name: str, seconds: float) -> Judged:
        asked = (*SPARSITIES, *matched.values())
        values = [full.values(elastic.at(sparsity=sparsity)) for sparsity in asked]
        points = [point(elastic, *size) for size in zip(asked, values, strict=True)]
        story = {key: value for key, value in elastic.ranking.provenance.items() if key != "losses"}
        run: dict[str, Any] = {"ranker": name, "seed": seed, "rank_seconds": seconds, "commit": commit()}
        run |= {"ranking": story, "points": points[: len(SPARSITIES)]}
        run["as_small_in"] = dict(zip(AS_SMALL_IN, points[len(SPARSITIES) :], strict=True))
        return Judged(run, {name: torch.stack([size[name] for size in values]) for name in values[0]})

    yield judged(label.removesuffix(MAPPED), seconds)
    if label.endswith(MAPPED):
        start = time.perf_counter()
        fit_output_maps(elastic, batches, sparsities=(*LADDER, *matched.values()))
        yield judged(label, seconds + time.perf_counter() - start)


def keep(judged: Judged, folder: Path) -> None:
    """Write what a run found; the values first, so that a run that is there is whole."""
    path = folder / f"{judged.run['ranker']}, {judged.run['seed']}.json"
    arrays = {name: found.numpy().astype(numpy.float16) for name, found in judged.values.items()}
    with replacing(path.with_suffix(".npz")) as temporary, temporary.open("wb") as file:
        numpy.savez_compressed(file, **arrays)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(judged.run), encoding="utf-8")


def kept(folder: Path) -> list[Judged]:
    """Read what all runs found, in the order of `LABELS` and seeds."""
    found: list[Judged] = []
    for path in folder.glob("*.json"):
        run = json.loads(path.read_text(encoding="utf-8"))
        with numpy.load(path.with_suffix(".npz")) as arrays:
            values = {name: torch.from_numpy(arrays[name].astype(numpy.float64)) for name in arrays}
        found.append(Judged(run, values))
    return sorted(found, key=lambda judged: (LABELS.index(judged.run["ranker"]), judged.run["seed"]))


def _interval(values: Tensor) -> list[float | None]:
    metric = mean_metric(values)
    return [metric.value, metric.low, metric.high]


def differences(all_judged: Sequence[Judged], full: Tensor, small: Tensor) -> dict[str, dict[str, Any]]:
    """Return for each ranker what sets its sizes apart, image by image, mean of the seeds: number, low and high end.

    Args:
        all_judged: All runs.
        full: Whether the full model is right `[images]`.
        small: Whether the smaller model is.

    Returns:
        By how much its sizes are ahead of the full model in top-1, `against_full`; of the small one, `against_small`;
        and of the default, in cosine and in top-1 over the seeds that both have, `against_default`.
    """
    by_label: dict[str, dict[int, Values]] = {}
    for judged in all_judged:
        by_label.setdefault(judged.run["ranker"], {})[judged.run["seed"]] = judged.values
    default, sizes = by_label.get(DEFAULT, {}), range(len(SPARSITIES))
    found: dict[str, dict[str, Any]] = {}
    for label, of in by_label.items():
        right = torch.stack([values["top1"] for values in of.values()]).mean(dim=0)
        found[label] = {"seeds": len(of), "against_full": [_interval(right[size] - full) for size in sizes]}
        ahead = zip(AS_SMALL_IN, right[len(SPARSITIES) :] - small, strict=True)
        found[label]["against_small"] = {what: _interval(values) for what, values in ahead}
        for name in ("cosine", "top1") if (both := sorted(set(default) & set(of))) else ():
            gaps = torch.stack([of[seed][name] - default[seed][name] for seed in both]).mean(dim=0)
            found[label].setdefault("against_default", {})[name] = [_interval(gaps[size]) for size in sizes]
    return found


def about(model: Any, story: dict[str, Any], right: Tensor) -> dict[str, Any]:
    """Return what the result file says of a full classifier."""
    anatomy = pliant.describe(model.vit)
    sizes = {"parameters": anatomy.total_parameters, "macs": anatomy.macs()}
    return {**sizes, "top1": _interval(right), "training": story}


def gather(folder: Path, weights: Path, test: Images) -> Path:
    """Make the result file of all runs that are there."""
    models, right = {}, {}
    for size in ("small", "large"):
        made = classifier(size, weights)
        full = full_model(made.model, test)
        right[size] = (full.said(full.outputs) == full.classes).double()
        models[size] = about(made.model, made.story, right[size])
    everything = kept(folder)
    result = {"benchmark": "classifiers", "test_images": len(test.pixels), "sparsities": SPARSITIES, "models": models}
    result["differences"] = differences(everything, right["large"], right["small"])
    return save("classifiers", {**result, "runs": [judged.run for judged in everything]})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="folder of the trained weights")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--runs", default=";".join(RUNS))
    asked = parser.parse_args()
    images, folder = fashion(), directory("large", asked.weights) / "runs"
    small = pliant.describe(classifier("small", asked.weights).model.vit)
    full = full_model(classifier("large", asked.weights).model, images.test)
    for seed in map(int, asked.seeds.split(",")):
        for label in asked.runs.split(";"):
            if (folder / f"{label}, {seed}.json").exists():
                continue
            model, batches = classifier("large", asked.weights).model, calibration(images.calibration.pixels, seed)
            for judged in ranked_and_measured(label, seed, model, batches, full, small):
                keep(judged, folder)
                half = judged.run["points"][SPARSITIES.index(0.5)]
                print(judged.run["ranker"], seed, round(judged.run["rank_seconds"]), half, flush=True)
    print(gather(folder, asked.weights, images.test))


if __name__ == "__main__":
    main()
