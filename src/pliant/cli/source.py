"""What the tasks of `pliant eval` measure on: data in each of the forms that they need."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from pliant.batches import Batch
from pliant.checkpoint import Checkpoint
from pliant.cli.asked import Asked
from pliant.cli.prompts import prompted
from pliant.conventions import Prompts, read_json
from pliant.data import DEMO_IMAGES, ImageBatches, TextBatches, images, pairs, sample, texts
from pliant.datasets import labelled_images, labelled_texts, retrieval_directory, scored_pairs
from pliant.datasets.beir import is_collection
from pliant.errors import InputError
from pliant.evaluation import RetrievalTask
from pliant.evaluation.classes import Classes
from pliant.evaluation.reading import LOGITS, Reading
from pliant.intact import intact

# An image takes some hundred times as long as a short text.
_MOST = {"text": 2000, "image": 200}

T = TypeVar("T")

_DEMO_TASK = "docstrings of Python's standard library"


@dataclass(frozen=True)
class Readers:
    """How a checkpoint reads inputs."""

    checkpoint: Checkpoint
    prompts: Prompts
    pooling: str
    batch_size: int
    max_tokens: int
    image_size: int | None

    def reading(self, items: Sequence[Any], tokens: bool = False, pooling: str | None = None) -> Reading:
        """Return a reading of texts, their prompts before them, or images."""
        longest = min(self.max_tokens, self.checkpoint.max_tokens)
        if self.checkpoint.inputs == "image":
            # A file is known by its bytes, a text by its letters: a function of the user's may name files by text.
            items = [Path(item) if isinstance(item, str) else item for item in items]
        settings = f"batches of {self.batch_size}, {longest} tokens, {self.image_size} pixels"
        return Reading(items, self._batches_of(longest), pooling or self.pooling, tokens, settings)

    def _batches_of(self, longest: int) -> Callable[[Sequence[Any]], Iterable[Batch]]:
        processor = self.checkpoint.preprocessor()
        if self.checkpoint.inputs == "image":
            return lambda found: ImageBatches(found, processor, self.batch_size, image_size=self.image_size)
        return lambda found: TextBatches(found, processor, self.batch_size, longest)


class Source:
    """One place that data comes from, read in the ways that its tasks need, each once.

    Args:
        path: The place; None for the demonstration's own texts.
        asked: What the user says of it.
        readers: How the model reads it.
        tokens: Whether token outputs are compared too.
    """

    def __init__(self, path: str | None, asked: Asked, readers: Readers, tokens: bool) -> None:
        """Read nothing yet."""
        self.path, self.asked, self.readers, self.tokens = path, asked, readers, tokens
        self.inputs = readers.checkpoint.inputs
        self.count = asked.inputs or _MOST[self.inputs]
        self.name = _DEMO_TASK if path is None else path
        self.skipped: list[str] = []
        """The names of images that were left out."""

    @property
    def given(self) -> str:
        """The path, where it is needed."""
        if self.path is None:
            raise InputError("This task needs data of its own. Pass --data PATH.")
        return self.path

    @cached_property
    def search(self) -> tuple[RetrievalTask, Reading]:
        """Queries and documents."""
        collection = self.path is not None and is_collection(self.path)
        if self.inputs != "text" or not (self.path is None or collection or self.asked.columns):
            raise InputError(
                "Retrieval needs a model of texts, and either --query-column and --document-column together or a "
                "directory with corpus.jsonl, queries.jsonl and qrels/test.tsv."
            )
        task = self._search(collection)
        prompts = self.readers.prompts
        queries, documents = prompted(task.queries, (prompts.query,)), prompted(task.documents, (prompts.document,))
        return task, self.readers.reading(queries + documents, self.tokens)

    def _search(self, collection: bool) -> RetrievalTask:
        if self.path is None:
            from pliant.demo import docstring_retrieval

            return docstring_retrieval()
        if collection:
            return retrieval_directory(self.path, self.asked.inputs)
        assert self.asked.columns is not None
        return _pair_task(self.path, self.asked.columns, self.count)

    @cached_property
    def _labelled(self) -> tuple[list[Any], Classes]:
        tested = self._labels(self.given, "evaluation")
        if not tested:
            raise InputError(f"{self.given} has no input with a class. Give some.")
        train = self.asked.train_data or (DEMO_IMAGES if self.given == DEMO_IMAGES else None)
        if train is None:
            return [item for item, _ in tested], Classes.halved(tuple(label for _, label in tested))
        examples = self._labels(train, "calibration")
        whole = tested + examples
        classes = Classes(tuple(label for _, label in whole), frozenset(range(len(tested), len(whole))))
        return [item for item, _ in whole], classes

    def _labels(self, path: str, use: Literal["calibration", "evaluation"]) -> list[tuple[Any, str]]:
        if self.inputs == "image" and path == DEMO_IMAGES:
            from pliant import demo

            self.name = "Fashion-MNIST" if path == self.path else self.name
            return sample(demo.labelled_images(use), self.count, seed=0)
        if self.inputs == "image":
            return self._intact(sample(labelled_images(path), self.count, seed=0), lambda item: item[0])
        found = sample(labelled_texts(path, self.asked.column, self.asked.label_column or "label"), self.count, seed=0)
        return [(self.readers.prompts.query + text, label) for text, label in found]

    def _intact(self, items: list[T], image_of: Callable[[T], Any]) -> list[T]:
        """Return the items whose images can be read; the others are refused, or noted and left out."""
        good, skipped = intact(items, self.asked.skip_corrupt, image_of)
        self.skipped += skipped
        return good

    @cached_property
    def classes(self) -> tuple[Classes, Reading]:
        """Inputs with classes."""
        items, classes = self._labelled
        return classes, self.readers.reading(items, self.tokens)

    @cached_property
    def head(self) -> tuple[Tensor, Reading]:
        """Inputs with the numbers of their classes, for a model that names them itself."""
        items, classes = self._labelled
        return _class_numbers(self.readers.checkpoint, classes.labels), self.readers.reading(items, pooling=LOGITS)

    @cached_property
    def pairs(self) -> tuple[Tensor, Reading]:
        """Pairs of texts with scores."""
        if self.inputs != "text":
            raise InputError(f"The task sts is for models of texts; {self.readers.checkpoint.name} reads images.")
        columns = (self.asked.pair_columns or "sentence1,sentence2").split(",")
        if len(columns) != 2:
            raise InputError(f"--pair-columns {self.asked.pair_columns!r} names {len(columns)} columns. Give two: a,b.")
        one, other = (column.strip() for column in columns)
        if one == other:
            raise InputError(f"--pair-columns {self.asked.pair_columns!r} names one column twice. Give two: a,b.")
        found = sample(scored_pairs(self.given, (one, other), self.asked.score_column or "score"), self.count, seed=0)
        both = tuple(pair.first for pair in found) + tuple(pair.second for pair in found)
        scores = torch.tensor([pair.score for pair in found], dtype=torch.float64)
        return scores, self.readers.reading(prompted(both, (self.readers.prompts.query,)), self.tokens)

    @cached_property
    def plain(self) -> Reading:
        """The inputs alone: those of the other tasks, where there are some, so that nothing is read twice."""
        for name in ("search", "classes", "pairs"):
            if name in self.__dict__:
                return self.__dict__[name][1]
        return self.readers.reading(self._inputs(), self.tokens)

    def _inputs(self) -> tuple[Any, ...]:
        if self.path is None:
            return tuple(self.search[1].items)
        if self.path == DEMO_IMAGES:
            from pliant.demo import evaluation_images

            # Those that are not for calibration.
            found = evaluation_images()
            self.name = found.name
            return tuple(sample(found.images, self.count, seed=0))
        if self.inputs == "image":
            return tuple(self._intact(sample(images(self.path), self.count, seed=0), lambda image: image))
        if is_collection(self.path):
            return tuple(self.search[1].items)
        return prompted(
            tuple(sample(texts(self.path, self.asked.column), self.count, seed=0)), self.readers.prompts.distinct
        )


def _pair_task(data: str, columns: tuple[str, str], count: int) -> RetrievalTask:
    """Return the task to find each query's document among all documents of the table."""
    found = sample(pairs(data, *columns), count, seed=0)
    documents = tuple(dict.fromkeys(document for _, document in found))
    position = {document: index for index, document in enumerate(documents)}
    relevant: dict[str, set[int]] = {}
    for query, document in found:
        relevant.setdefault(query, set()).add(position[document])
    return RetrievalTask(tuple(relevant), documents, tuple(frozenset(right) for right in relevant.values()))


def _class_numbers(checkpoint: Checkpoint, labels: tuple[str, ...]) -> Tensor:
    """Return the number that each label has among the model's classes."""
    config = read_json(checkpoint.directory / "config.json")
    names, known = sorted(set(labels)), config.get("label2id")
    if isinstance(known, dict) and set(names) <= set(known):
        return torch.tensor([int(known[label]) for label in labels])
    if all(name.isdecimal() for name in names):
        return torch.tensor([int(label) for label in labels])
    if len(names) == config.get("num_classes", len(known or ())):
        # As torchvision numbers the folders of images that classifiers are trained on.
        return torch.tensor([names.index(label) for label in labels])
    raise InputError(
        f"The labels {', '.join(names[:3])} … are neither numbers nor names in the label2id of {checkpoint.name}'s "
        "config.json. Label the data with those."
    )
