"""Two small ViT classifiers of one family, trained here on Fashion-MNIST in minutes.

Of Fashion-MNIST's 60,000 training images (Debian's dataset-fashion-mnist) the last 5,000 are kept out of training: they
are what pliant calibrates with, without labels. The 10,000 test images are for the benchmark alone.

Run: python -m benchmarks.fashion [--weights DIR]
"""

import argparse
import hashlib
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy
import torch
from torch import Tensor, nn
from transformers import ViTConfig, ViTForImageClassification

from pliant.demo.pictures import fashion_mnist
from pliant.files import new_directory

WEIGHTS = Path("~/.cache/pliant-benchmarks/fashion").expanduser()
WIDTHS = {"large": 128, "small": 88}
"""The two sizes: widths of models that are alike in all else."""

CALIBRATION = 5000
SHIFT = 2
"""Pixels that a training image is moved by, at most, up or down and left or right."""

MEAN, DEVIATION = 0.286, 0.353
"""Of the training images' pixels, from 0 to 1."""


@dataclass(frozen=True)
class Recipe:
    """How a classifier is made.

    Args:
        width: Of the model; its MLPs are four times as wide.
        layers: How many it has.
        heads: Of each layer.
        patch: Height and width of a patch in pixels.
        epochs: How often each training image is seen.
        batch: Images in a step.
        rate: AdamW's step size after a twentieth of the steps; it falls to zero along a cosine.
        decay: AdamW's weight decay.
        seed: Of the weights, the order of images and their changes.
    """

    width: int
    layers: int = 6
    heads: int = 4
    patch: int = 7
    epochs: int = 5
    batch: int = 128
    rate: float = 2e-3
    decay: float = 0.05
    seed: int = 0


class Images(NamedTuple):
    """Images `[images, 28, 28]` of bytes, and their classes `[images]`."""

    pixels: Tensor
    classes: Tensor


class Fashion(NamedTuple):
    """Three disjoint parts."""

    training: Images
    calibration: Images
    test: Images


def fashion() -> Fashion:
    """Read Fashion-MNIST."""
    seen, unseen = (
        Images(torch.from_numpy(pixels.copy()), torch.from_numpy(labels.astype(numpy.int64)))
        for labels, pixels in (fashion_mnist("calibration"), fashion_mnist("evaluation"))
    )
    if not len(seen.pixels) or not len(unseen.pixels):
        raise SystemExit("Fashion-MNIST isn't installed. On Debian: apt-get install dataset-fashion-mnist")
    training, calibration = (
        Images(*(part[of] for part in seen)) for of in (slice(-CALIBRATION), slice(-CALIBRATION, None))
    )
    return Fashion(training, calibration, unseen)


def inputs(pixels: Tensor) -> Tensor:
    """Return what the classifiers read `[images, 1, 28, 28]`."""
    return ((pixels.float() / 255 - MEAN) / DEVIATION).unsqueeze(1)


def changed(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Return each image `[images, 28, 28]` moved by at most `SHIFT` pixels, and half of them mirrored."""
    count, side = len(pixels), pixels.shape[-1]
    padded = nn.functional.pad(pixels, (SHIFT,) * 4)
    rows, columns = (
        torch.randint(2 * SHIFT + 1, (count, 1), generator=generator) + torch.arange(side) for _ in range(2)
    )
    mirrored = torch.rand(count, 1, generator=generator) < 0.5
    columns = torch.where(mirrored, columns.flip(1), columns)
    return padded[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def untrained(recipe: Recipe) -> ViTForImageClassification:
    torch.manual_seed(recipe.seed)
    config = ViTConfig(
        hidden_size=recipe.width,
        intermediate_size=4 * recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        image_size=28,
        patch_size=recipe.patch,
        num_channels=1,
        num_labels=10,
    )
    return ViTForImageClassification(config)


def _batches(training: Images, recipe: Recipe, generator: torch.Generator) -> Iterator[Images]:
    """Yield the batches of all epochs, each epoch in a new order; images that fill no batch are left out of it."""
    steps = len(training.pixels) // recipe.batch
    for _ in range(recipe.epochs):
        order = torch.randperm(len(training.pixels), generator=generator)
        for chosen in order[: steps * recipe.batch].split(recipe.batch):
            yield Images(changed(training.pixels[chosen], generator), training.classes[chosen])


def share_of_rate(step: int, steps: int) -> float:
    """Return what the step size is multiplied by: it rises in a twentieth of the steps, then falls along a cosine."""
    rising = max(1, steps // 20)
    if step < rising:
        return (step + 1) / rising
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / (steps - rising)))


def trained(recipe: Recipe, training: Images) -> tuple[ViTForImageClassification, list[float]]:
    """Train a classifier; return it and the mean loss of each epoch."""
    model = untrained(recipe).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    steps_each = len(training.pixels) // recipe.batch
    steps = recipe.epochs * steps_each
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: share_of_rate(step, steps))
    losses: list[float] = []
    generator = torch.Generator().manual_seed(recipe.seed)
    for number, batch in enumerate(_batches(training, recipe, generator), start=1):
        loss = model(inputs(batch.pixels), labels=batch.classes).loss
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
        if number % 50 == 0:
            print(f"step {number} of {steps}: loss {sum(losses[-50:]) / 50:.3f}", flush=True)
    return model.eval(), [sum(losses[i : i + steps_each]) / steps_each for i in range(0, steps, steps_each)]


def directory(size: str, weights: Path) -> Path:
    """Return where a classifier's weights are: another recipe has another place."""
    recipe = json.dumps(asdict(Recipe(WIDTHS[size])), sort_keys=True)
    return weights / f"{size}-{hashlib.sha256(recipe.encode()).hexdigest()[:8]}"


def train(size: str, weights: Path) -> None:
    """Train one of `WIDTHS` and keep its weights, unless they are there."""
    place = directory(size, weights)
    if place.exists():
        return
    recipe = Recipe(WIDTHS[size])
    start, used = time.perf_counter(), time.process_time()
    model, losses = trained(recipe, fashion().training)
    story = {
        "recipe": asdict(recipe),
        "losses": losses,
        "seconds": time.perf_counter() - start,
        "core_seconds": time.process_time() - used,
    }
    with new_directory(place) as folder:
        model.save_pretrained(folder)
        (folder / "training.json").write_text(json.dumps(story, indent=1) + "\n", encoding="utf-8")


class Classifier(NamedTuple):
    """A trained classifier, and how it was trained."""

    model: ViTForImageClassification
    story: dict[str, object]


def classifier(size: str, weights: Path) -> Classifier:
    """Return a trained classifier."""
    place = directory(size, weights)
    if not place.exists():
        raise SystemExit(f"There are no weights in {place}. Run: python -m benchmarks.fashion --weights {weights}")
    story = json.loads((place / "training.json").read_text(encoding="utf-8"))
    return Classifier(ViTForImageClassification.from_pretrained(place).eval(), story)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="folder for the trained weights")
    parser.add_argument("--size", choices=WIDTHS, action="append", help="by default both")
    options = parser.parse_args()
    for size in options.size or WIDTHS:
        train(size, options.weights)
        print(directory(size, options.weights))


if __name__ == "__main__":
    main()
