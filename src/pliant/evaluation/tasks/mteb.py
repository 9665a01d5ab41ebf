"""A task of MTEB, the Massive Text Embedding Benchmark, run by its own package."""

import copy
import difflib
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from pliant.conventions import Prompts
from pliant.errors import InputError, MissingExtraError
from pliant.evaluation.labels import MTEB
from pliant.evaluation.metric import Metric
from pliant.evaluation.mteb_encoder import Embed, MtebEncoder
from pliant.evaluation.reading import Reading
from pliant.evaluation.tasks.function import FAULTS, load_function
from pliant.evaluation.tasks.task import Size

SAME = None
"""In place of a sparsity: documents are embedded by the size that is measured, as the queries are."""


@dataclass(frozen=True, eq=False)
class Mteb:
    """The main score of a task of MTEB, with queries by one size and documents by another.

    Inputs that a task calls neither queries nor documents, as those of classification, are embedded as queries are.

    Args:
        task: The task, as `load_task` returns it.
        reading_of: Makes a reading of texts or images.
        inputs: What the model reads: `text` or `image`.
        prompts: What is put before queries, and before documents.
        documents_at: Sparsity of the model that embeds documents; by default the full one. `SAME` as the queries.

    Raises:
        InputError: The task measures other models than those of one embedding for each input.

    Source:
        Muennighoff, Tazi, Magne and Reimers, "MTEB: Massive Text Embedding Benchmark", 2022.
    """

    task: Any
    reading_of: Callable[[Sequence[Any]], Reading]
    inputs: str = "text"
    prompts: Prompts = field(default_factory=Prompts)
    documents_at: float | None = 0.0
    _seen: dict[str, Reading] = field(default_factory=dict)

    @property
    def readings(self) -> tuple[Reading, ...]:
        """None that is known before."""
        return ()

    @property
    def name(self) -> str:
        """What mteb calls it."""
        return self.task.metadata.name

    def score(self, full: Size, slim: Size) -> Mapping[str, Metric]:
        """Run it.

        Raises:
            InputError: mteb can't run it with this model, or its score isn't finite.
        """
        import mteb

        documents = slim if slim is full or self.documents_at is None else slim.at(self.documents_at)
        # Typed so that it may be made in its own way: mteb's protocol asks for the arguments of its command line.
        encoder: Any = MtebEncoder(
            self._embed(slim, self.prompts.query), self._embed(documents, self.prompts.document), self.inputs
        )
        with _silence():
            try:
                result = mteb.evaluate(
                    encoder, _fresh(self.task), co2_tracker=False, cache=None, show_progress_bar=False
                )
                found = float(result.task_results[0].get_score())
            except FAULTS as error:
                raise InputError(f"MTEB's {self.name} failed{_told(error)} Leave it out.") from error
        if not math.isfinite(found):
            raise InputError(f"MTEB's {self.name} has a main score of {found}. Leave it out.")
        return {f"{MTEB}{self.name}": Metric(found)}

    def _embed(self, size: Size, prompt: str) -> Embed:
        def embed(items: Sequence[Any]) -> Any:
            reading = self.reading_of([prompt + item for item in items] if self.inputs == "text" else items)
            return size(self._seen.setdefault(reading.digest, reading)).embeddings

        return embed


def load_task(name: str) -> Any:
    """Return a task of MTEB with its data, which mteb fetches from the Hugging Face hub and keeps.

    Args:
        name: Its name, or `module:class` for one of the user's own, also in the current directory.

    Raises:
        InputError: There is no such task, or its data can't be fetched.
        MissingExtraError: mteb is not installed.
    """
    try:
        import mteb
    except ImportError as error:
        raise MissingExtraError("Measuring on MTEB", "mteb") from error
    with _silence():
        task = _own(name) if ":" in name else mteb.get_task(_checked(name))
        try:
            for part in _parts(task):
                part.load_data()
        except FAULTS as error:
            raise InputError(
                f"The data of MTEB's {name} can't be fetched{_told(error)} It comes from the Hugging Face hub: try "
                "where there is a network. From then on it is in the hub's cache, which HF_HOME names."
            ) from error
    return task


def _checked(name: str) -> str:
    from mteb.get_tasks import TASK_LIST

    names = {task.metadata.name.lower(): task.metadata.name for task in TASK_LIST}
    if name in names.values():
        return name
    near = [names[found] for found in difflib.get_close_matches(name.lower(), names, n=4)]
    hint = f"Names like it: {', '.join(near)}." if near else "mteb.get_tasks() lists them all."
    raise InputError(f"MTEB has no task {name!r}. {hint} One of your own is module:class.")


def _own(path: str) -> Any:
    import mteb

    try:
        task = load_function(path)()  # pyright: ignore[reportCallIssue] - a class that takes nothing
    except FAULTS as error:
        raise InputError(f"{path} can't be made{_told(error)} Correct it.") from error
    if not isinstance(task, mteb.AbsTask):
        raise InputError(f"{path} gives a {type(task).__name__}, no task of MTEB. Name a subclass of mteb.AbsTask.")
    return task


def _parts(task: Any) -> list[Any]:
    """Return the task, or those that it is the mean of."""
    return [leaf for part in task.metadata.tasks for leaf in _parts(part)] if task.is_aggregate else [task]


def _fresh(task: Any) -> Any:
    """Return a copy that draws anew what it draws at random: every size is measured on the same inputs."""
    made = copy.copy(task)
    made.rng_state, made.np_rng = copy.deepcopy((task.rng_state, task.np_rng))
    return made


def _told(error: BaseException) -> str:
    reason = " ".join(str(error).split()).removesuffix(".")
    return f": {reason:.200}." if reason else f": {type(error).__name__}."


@contextmanager
def _silence() -> Iterator[None]:
    """Keep the progress bars and notices of mteb and what it loads data with out of our output while the block runs."""
    datasets = import_module("datasets")
    loggers = [logging.getLogger(name) for name in ("mteb", "datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    bars = datasets.is_progress_bar_enabled()
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        datasets.disable_progress_bars()
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if bars:
            datasets.enable_progress_bars()
