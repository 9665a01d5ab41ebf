"""Calibration inputs for a model, from what the user points at."""

from dataclasses import dataclass, replace

from pliant.checkpoint import Checkpoint
from pliant.cli.console import check_positive
from pliant.conventions import Prompts
from pliant.data import ImageBatches, TextBatches, check_enough, images, sample, texts
from pliant.errors import InputError

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

    def batches(self, checkpoint: Checkpoint) -> TextBatches | ImageBatches:
        """Return the batches, made for the model when they are asked for.

        Raises:
            InputError: The data can't be read, or doesn't fill a batch.
        """
        check_image_size(self.image_size, checkpoint)
        batch_size = self.batch_size or _BATCH_SIZES[checkpoint.inputs]
        if checkpoint.inputs == "image":
            pictures = sample(images(self.path), self.inputs, self.seed)
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
