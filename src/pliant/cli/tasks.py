"""The tasks of `pliant eval`, from what the user asks for and points at."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pliant.checkpoint import DEMO_MODEL, DEMO_VISION
from pliant.cli.asked import Asked
from pliant.cli.source import Readers, Source
from pliant.data import DEMO_IMAGES
from pliant.datasets.beir import is_collection
from pliant.errors import InputError
from pliant.evaluation.tasks.clustering import Clustering
from pliant.evaluation.tasks.dense import Dense
from pliant.evaluation.tasks.fidelity import Fidelity
from pliant.evaluation.tasks.function import Function, load_function
from pliant.evaluation.tasks.head import Head
from pliant.evaluation.tasks.knn import Knn
from pliant.evaluation.tasks.mteb import Mteb, load_task
from pliant.evaluation.tasks.probe import Probe
from pliant.evaluation.tasks.retrieval import Retrieval
from pliant.evaluation.tasks.sts import Sts
from pliant.evaluation.tasks.task import Task


@dataclass(frozen=True)
class Measured:
    """What is measured: its name, the tasks, and the names of images that were left out."""

    name: str
    tasks: tuple[Task, ...]
    skipped: tuple[str, ...] = ()


TASKS: dict[str, Callable[[Source], Task]] = {
    "fidelity": lambda source: Fidelity(source.plain),
    "dense": lambda source: Dense(source.plain),
    "retrieval": lambda source: Retrieval(*source.search),
    "knn": lambda source: Knn(*source.classes),
    "probe": lambda source: Probe(*source.classes),
    "clustering": lambda source: Clustering(*source.classes),
    "sts": lambda source: Sts(*source.pairs),
    "head": lambda source: Head(*source.head),
}
"""Every task by its name."""

# Built last, as they take what the others read.
_ANYTHING = ("fidelity", "dense")


def measured(asked: Asked, readers: Readers, model: object) -> Measured:
    """Return the tasks that the user asks for, or that the data is for.

    Args:
        asked: What the user wants.
        readers: How the model reads inputs.
        model: The model's name; the demo models bring their own data.

    Raises:
        InputError: A task is unknown, or there is no data that it can use.
        MissingExtraError: A task needs a package that isn't installed.
    """
    special, general = _paths(asked.data)
    demo_texts = general is None and model == DEMO_MODEL
    if general is None and model == DEMO_VISION:
        general = DEMO_IMAGES
    benchmarks = _benchmarks(asked, readers)
    names = [] if asked.only_mteb else _names(asked, readers.checkpoint.inputs, special, general, demo_texts)
    anything = general or next(iter(special.values()), None)
    paths = {name: special.get(name, anything if name in _ANYTHING else general) for name in names if name in TASKS}
    if None in paths.values() and not demo_texts:
        raise InputError("There is nothing to measure on. Pass --data PATH: texts, a table or a folder of images.")
    dense = [paths[name] for name in paths if name == "dense"]
    sources = {path: Source(path, asked, readers, path in dense) for path in paths.values()}
    found: dict[str, Task] = {}
    for name in sorted(names, key=lambda name: name in _ANYTHING):
        if ":" in name:
            found[name] = Function(name.rpartition(":")[2], load_function(name), readers.reading)
        else:
            found[name] = TASKS[name](sources[paths[name]])
    titles = [*dict.fromkeys(source.name for source in sources.values())] or names
    titles = [*titles, *(f"MTEB's {task.name}" for task in benchmarks)]
    skipped = tuple(dict.fromkeys(image for source in sources.values() for image in source.skipped))
    return Measured(", ".join(titles), (*(found[name] for name in names), *benchmarks), skipped)


def _benchmarks(asked: Asked, readers: Readers) -> list[Mteb]:
    """Return the tasks of MTEB that are asked for."""
    documents = asked.documents_sparsity
    names = [name.strip() for name in (asked.mteb or "").split(",")] if asked.mteb is not None else []
    inputs, prompts = readers.checkpoint.inputs, readers.prompts
    return [Mteb(load_task(name), readers.reading, inputs, prompts, documents) for name in dict.fromkeys(names)]


def _paths(data: Sequence[str]) -> tuple[dict[str, str], str | None]:
    """Part `TASK=PATH` from the path for all other tasks."""
    special: dict[str, str] = {}
    general: str | None = None
    for value in data:
        name, equals, path = value.partition("=")
        if equals and name in TASKS:
            if special.setdefault(name, path) != path:
                raise InputError(f"Two --data for {name}: {special[name]} and {path}. Give one.")
        elif general is not None:
            raise InputError(f"Two --data, {general} and {value}. Say what each is for: --data knn={value}, say.")
        else:
            general = value
    return special, general


def _names(asked: Asked, inputs: str, special: dict[str, str], general: str | None, demo_texts: bool) -> list[str]:
    """Return the tasks' names, in order and without twins."""
    names = _usual(asked, inputs, special, general, demo_texts)
    if asked.tasks is not None:
        names = list(dict.fromkeys(name.strip() for name in asked.tasks.split(",")))
    unknown = [name for name in names if name not in TASKS and ":" not in name]
    if unknown:
        raise InputError(
            f"Unknown --tasks {', '.join(unknown)!r}. Allowed: {', '.join(TASKS)}, or a function of yours as "
            "module:function."
        )
    if unused := [name for name in special if name not in names]:
        raise InputError(f"--data is given for {unused[0]}, which is not in --tasks {asked.tasks}. Add it there.")
    if (asked.query_column or asked.document_column) and not (asked.columns and "retrieval" in names):
        raise InputError(
            "Retrieval needs a model of texts, --query-column and --document-column together, and retrieval in --tasks."
        )
    return names


def _usual(asked: Asked, inputs: str, special: dict[str, str], general: str | None, demo_texts: bool) -> list[str]:
    """Return what the data is for, as far as the options tell."""
    collection = general is not None and is_collection(general)
    told = {
        "fidelity": True,
        "dense": inputs == "image",
        "retrieval": demo_texts or collection or bool(asked.columns),
        "knn": asked.label_column is not None,
        "sts": asked.pair_columns is not None or asked.score_column is not None,
    }
    return [name for name in TASKS if told.get(name) or name in special]
