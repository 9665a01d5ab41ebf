"""Calibration inputs for a model, from what the user points at."""

from dataclasses import dataclass, replace

from pliant.checkpoint import Checkpoint
from pliant.cli.console import check_positive
from pliant.conventions import Prompts
from pliant.data import ImageBatches, TextBatches, check_enough, images, sample, texts


@dataclass(frozen=True)
class CalibrationData:
    """Where calibration inputs come from, and how they are batched.

    Args:
        path: Text file, table, directory or image folder, or `demo:text`.
        column: The column of a table.
        inputs: At most so many inputs, drawn at random.
        batch_size: Inputs in a batch.
        max_tokens: Longer texts are cut off.
        noise: Share of tokens that are replaced by random ones in every second text.
        seed: Of the draw and the noise.
        query_prompt: Put before half of the texts, as before queries.
        document_prompt: Put before the other half, as before documents.
    """

    path: str
    column: str | None = None
    inputs: int = 4096
    batch_size: int = 16
    max_tokens: int = 96
    noise: float = 0.4
    seed: int = 0
    query_prompt: str = ""
    document_prompt: str = ""

    def __post_init__(self) -> None:
        """Refuse sizes below one."""
        for name in ("inputs", "batch_size", "max_tokens"):
            check_positive(getattr(self, name), f"--{name.replace('_', '-')}")

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
        if checkpoint.inputs == "image":
            paths = sample(images(self.path), self.inputs, self.seed)
            check_enough(len(paths), self.batch_size, "images")
            return ImageBatches(paths, checkpoint.preprocessor(), self.batch_size, drop_last=True)
        found = sample(texts(self.path, self.column), self.inputs, self.seed)
        check_enough(len(found), self.batch_size, "texts")
        longest = min(self.max_tokens, checkpoint.max_tokens)
        tokenizer = checkpoint.preprocessor()
        return TextBatches(
            found,
            tokenizer,
            self.batch_size,
            longest,
            drop_last=True,
            bucket=True,
            noise=self.noise,
            seed=self.seed,
            prompts=self.prompts.distinct,
        )
