"""Calibration inputs for a model, from what the user points at."""

from dataclasses import dataclass

from pliant.checkpoint import Checkpoint
from pliant.data import ImageBatches, TextBatches, check_enough, images, sample, texts
from pliant.errors import InputError


@dataclass(frozen=True)
class CalibrationData:
    """Where calibration inputs come from, and how they are batched.

    Args:
        path: Text file, table, directory or image folder, or `demo:text`.
        column: The column of a table.
        inputs: At most so many inputs, drawn at random.
        batch_size: Inputs in a batch.
        max_tokens: Longer texts are cut off.
        seed: Of the draw.
    """

    path: str
    column: str | None
    inputs: int
    batch_size: int
    max_tokens: int
    seed: int

    def __post_init__(self) -> None:
        """Refuse sizes below one."""
        for name in ("inputs", "batch_size", "max_tokens"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name.replace('_', '-')} {getattr(self, name)} is too small: at least 1.")

    def batches(self, checkpoint: Checkpoint) -> TextBatches | ImageBatches:
        """Return the batches, made for the model when they are asked for.

        Raises:
            InputError: The data can't be read, or doesn't fill a batch.
        """
        if checkpoint.inputs == "image":
            paths = sample(images(self.path), self.inputs, self.seed)
            check_enough(len(paths), self.batch_size, "images")
            return ImageBatches(paths, checkpoint.preprocessor(), self.batch_size, drop_last=True)
        found = sample(texts(self.path, self.column), self.inputs, self.seed)
        check_enough(len(found), self.batch_size, "texts")
        longest = min(self.max_tokens, checkpoint.max_tokens)
        tokenizer = checkpoint.preprocessor()
        return TextBatches(found, tokenizer, self.batch_size, longest, drop_last=True, bucket=True, seed=self.seed)
