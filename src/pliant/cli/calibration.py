"""Calibration inputs for a model, from what the user points at."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pliant.checkpoint import Checkpoint
from pliant.cli.console import check_positive
from pliant.conventions import Prompts
from pliant.data import ImageBatches, TextBatches, check_enough, images, sample, texts
from pliant.errors import InputError
from pliant.intact import intact, named

if TYPE_CHECKING:
    from PIL.Image import Image

SkipCorrupt = Annotated[bool, typer.Option("--skip-corrupt", help="Leave out images that can't be read.")]

# An image is hundreds of tokens, most texts are a few dozen.
_BATCH_SIZES = {"text": 16, "image": 8}

# An image of one pixel has no patch, and of larger ones a batch doesn't fit into most memories.
_SIDES = (2, 4096)


@dataclass(frozen=True)
class CalibrationData:
    """Where calibration inputs come from, and how they are batched.

    Args:
        path: Text file, table, directory or image folder, `demo:text` or `demo:vision`.
        column: The column of a table.
        inputs: At most so many inputs, drawn at random.
        batch_size: Inputs in a batch; by default 16 texts or 8 images.
        max_tokens: Longer texts are cut off.
        noise: Share of tokens that are replaced by random ones in every second text.
        seed: Of the draw and the noise.
        image_size: Height and width of images, in pixels; by default the processor's.
        skip_corrupt: Leave out images that can't be read, rather than refuse them.
        query_prompt: Put before half of the texts, as before queries.
        document_prompt: Put before the other half, as before documents.
    """

    path: str
    column: str | None = None
    inputs: int = 4096
    batch_size: int | None = None
    max_tokens: int = 96
    noise: float = 0.4
    seed: int = 0
    image_size: int | None = None
    skip_corrupt: bool = False
    query_prompt: str = ""
    document_prompt: str = ""

    def __post_init__(self) -> None:
        """Refuse sizes below one."""
        for name in ("inputs", "batch_size", "max_tokens", "image_size"):
            if (value := getattr(self, name)) is not None:
                check_positive(value, f"--{name.replace('_', '-')}")

    @property
    def prompts(self) -> Prompts:
        """What is put before the texts."""
        return Prompts(self.query_prompt, self.document_prompt)

    def with_prompts(self, prompts: Prompts) -> "CalibrationData":
        """Return the same data with prompts before its texts."""
        return replace(self, query_prompt=prompts.query, document_prompt=prompts.document)

    @cached_property
    def _images(self) -> "tuple[list[Path | Image], tuple[str, ...]]":
        """The images that can be read, and the names of those that can't."""
        return intact(sample(images(self.path), self.inputs, self.seed), self.skip_corrupt, lambda image: image)

    @property
    def skipped(self) -> tuple[str, ...]:
        """The names of images that `batches` left out."""
        return self._images[1] if "_images" in self.__dict__ else ()

    def batches(self, checkpoint: Checkpoint) -> TextBatches | ImageBatches:
        """Return the batches, made for the model when they are asked for.

        Raises:
            InputError: The data can't be read, or doesn't fill a batch.
        """
        check_image_size(self.image_size, checkpoint)
        check_skip_corrupt(self.skip_corrupt, checkpoint)
        batch_size = self.batch_size or _BATCH_SIZES[checkpoint.inputs]
        if checkpoint.inputs == "image":
            pictures, _ = self._images
            check_enough(len(pictures), batch_size, "images")
            processor = checkpoint.preprocessor()
            return ImageBatches(pictures, processor, batch_size, image_size=self.image_size, drop_last=True)
        found = sample(texts(self.path, self.column), self.inputs, self.seed)
        check_enough(len(found), batch_size, "texts")
        longest = min(self.max_tokens, checkpoint.max_tokens)
        tokenizer = checkpoint.preprocessor()
        return TextBatches(
            found,
            tokenizer,
            batch_size,
            longest,
            drop_last=True,
            bucket=True,
            noise=self.noise,
            seed=self.seed,
            prompts=self.prompts.distinct,
        )


def check_skip_corrupt(skip: bool, checkpoint: Checkpoint) -> None:
    """Refuse to skip images for a model of texts.

    Raises:
        InputError: That is asked for.
    """
    if skip and checkpoint.inputs == "text":
        raise InputError(f"--skip-corrupt is for folders of images; {checkpoint.name} reads texts. Leave it out.")


def skipped_notes(skipped: Sequence[str]) -> tuple[str, ...]:
    """Return what a user should know of images that were left out."""
    return (f"left out {len(skipped)} images that can't be read: {named(skipped)}.",) if skipped else ()


def check_image_size(image_size: int | None, checkpoint: Checkpoint) -> None:
    """Refuse an image size for a model of texts, and one that no model of images can have.

    Raises:
        InputError: It is one.
    """
    if image_size is None:
        return
    if checkpoint.inputs == "text":
        raise InputError(f"--image-size {image_size} is for models of images; {checkpoint.name} reads texts.")
    smallest, largest = _SIDES
    if not smallest <= image_size <= largest:
        raise InputError(f"--image-size {image_size} is out of range. Give one from {smallest} to {largest}.")
