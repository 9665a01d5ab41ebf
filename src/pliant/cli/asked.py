"""What the user of `pliant eval` asks for."""

import math
from contextlib import suppress
from dataclasses import dataclass

from pliant.cli.console import check_positive
from pliant.cli.prompts import AskedPrompts
from pliant.errors import InputError
from pliant.evaluation.tasks.mteb import SAME


@dataclass(frozen=True)
class Asked:
    """What the user wants measured, and on what.

    Args:
        tasks: Names with commas; None for what the data is for.
        data: Paths, and `TASK=PATH`.
        column: The column of texts.
        label_column: The column of classes.
        train_data: Examples for kNN and the probe; by default half of the data.
        query_column: The column of queries.
        document_column: The column of documents.
        pair_columns: The two columns of STS, with a comma.
        score_column: The column of its scores.
        inputs: At most so many inputs.
        mteb: Names of MTEB's tasks, with commas.
        documents_at: The sparsity of the model for their documents, or `same` as that for their queries.
        skip_corrupt: Leave out images that can't be read, rather than refuse them.

    Raises:
        InputError: The number of inputs is below one.
    """

    tasks: str | None
    data: tuple[str, ...]
    column: str | None = None
    label_column: str | None = None
    train_data: str | None = None
    query_column: str | None = None
    document_column: str | None = None
    pair_columns: str | None = None
    score_column: str | None = None
    inputs: int | None = None
    mteb: str | None = None
    documents_at: str | None = None
    skip_corrupt: bool = False

    def __post_init__(self) -> None:
        """Refuse a number of inputs below one."""
        if self.inputs is not None:
            check_positive(self.inputs, "--inputs")

    @property
    def paths(self) -> tuple[str, ...]:
        """All places that data comes from, as they are written: with and without the name of a task."""
        special = tuple(value.partition("=")[2] for value in self.data if "=" in value)
        return (*self.data, *special, *([self.train_data] if self.train_data else []))

    @property
    def only_mteb(self) -> bool:
        """Whether nothing else is asked for than tasks of MTEB."""
        return self.mteb is not None and self.tasks is None and not self.data

    @property
    def documents_sparsity(self) -> float | None:
        """The sparsity of the model for MTEB's documents; None is that of the model for its queries.

        Raises:
            InputError: It is no sparsity, or there is nothing of MTEB.
        """
        if self.documents_at is None:
            return 0.0
        if self.mteb is None:
            raise InputError(f"--documents-at {self.documents_at} is for --mteb. Name tasks there.")
        if self.documents_at.strip().lower() == "same":
            return SAME
        sparsity = math.nan
        with suppress(ValueError):
            sparsity = float(self.documents_at)
        if not 0 <= sparsity < 1:
            raise InputError(f"--documents-at {self.documents_at!r}: a sparsity from 0, that is below 1, or same.")
        return sparsity

    @property
    def columns(self) -> tuple[str, str] | None:
        """The columns of queries and documents, where both are given."""
        if self.query_column is None or self.document_column is None:
            return None
        return self.query_column, self.document_column


@dataclass(frozen=True)
class HowRead:
    """How the user wants inputs to be read.

    Args:
        batch_size: Inputs in a batch.
        max_tokens: Longer texts are cut off.
        image_size: Height and width of images, in pixels; by default the processor's.
        pooling: In place of the ranking's.
        prompts: What is put before all texts, before queries and before documents, in place of the model's own.

    Raises:
        InputError: A size is below one.
    """

    batch_size: int
    max_tokens: int
    image_size: int | None
    pooling: str | None
    prompts: AskedPrompts

    def __post_init__(self) -> None:
        """Refuse sizes below one."""
        for name in ("batch_size", "max_tokens", "image_size"):
            if (value := getattr(self, name)) is not None:
                check_positive(value, f"--{name.replace('_', '-')}")
