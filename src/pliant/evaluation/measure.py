"""Measuring all sizes of an elastic model on any number of tasks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import nn

from pliant.batches import Batch
from pliant.budget import Cut
from pliant.cost import Cost
from pliant.errors import InputError
from pliant.evaluation.curve import Curve, Point
from pliant.evaluation.metric import Metric
from pliant.evaluation.reading import Collected, Outputs, Reading, Runner, Store, read
from pliant.evaluation.retrieval import RetrievalTask
from pliant.evaluation.tasks.fidelity import Fidelity
from pliant.evaluation.tasks.retrieval import Retrieval
from pliant.evaluation.tasks.task import Size, Task

Progress = Callable[[str, float], None]
"""Called after each batch with what is being done and the fraction of the whole that is done."""


StoreOf = Callable[[Reading, Cut | None], Store]
"""Gives the place for what one cut, or the full model, makes of a reading."""


class Sizes(Protocol):
    """The part of `Elastic` that an evaluation needs."""

    def at(self, *, sparsity: float) -> nn.Module:
        """Return the model of that size."""
        ...

    def plan(self, *, sparsity: float) -> Cut:
        """Return the cut of that size."""
        ...

    def cost(self, cut: Cut) -> Cost:
        """Return what `cut` costs."""
        ...


@dataclass(frozen=True)
class _Models:
    """The full model and its sizes, each with what it has given for each reading."""

    elastic: Sizes
    progress: Progress
    work: int
    store_of: StoreOf
    runners: dict[tuple[Reading, Cut], Runner] = field(default_factory=dict)
    done: list[int] = field(default_factory=list)

    def runner(self, reading: Reading, sparsity: float) -> Runner:
        """Return the model of that size; sizes that keep the same units are one."""
        key = (reading, self.elastic.plan(sparsity=sparsity))
        if key not in self.runners:
            cut = None if key[1] == self.elastic.plan(sparsity=0.0) else key[1]
            self.runners[key] = Runner(lambda: self.elastic.at(sparsity=sparsity), self.store_of(reading, cut))
        return self.runners[key]

    def read(self, reading: Reading, sparsities: Sequence[float]) -> None:
        """Run the full model and some sizes over a reading."""
        full = self.runner(reading, 0.0)
        slim = dict.fromkeys(self.runner(reading, sparsity) for sparsity in sparsities)
        slim.pop(full, None)
        before, count = sum(self.done), len(reading.items)
        read(reading, full, list(slim), lambda done: self._report(before, done, count))
        self.done.append(count)

    def _report(self, before: int, done: int, count: int) -> None:
        self.progress(f"{done} of {count} inputs", min(1.0, (before + done) / self.work))


@dataclass(frozen=True, eq=False)
class _Size:
    """One size's outputs; readings that haven't been read yet are read when they are asked for."""

    models: _Models
    sparsity: float

    def __call__(self, reading: Reading) -> Outputs:
        """Return its outputs for a reading."""
        if self.models.runner(reading, self.sparsity).store.done < len(reading.items):
            self.models.read(reading, [self.sparsity])
        return self.models.runner(reading, self.sparsity).store.outputs(reading.order)

    def at(self, sparsity: float) -> Size:
        """Return another size of the same model."""
        return _Size(self.models, sparsity)


def evaluate(
    elastic: Sizes,
    sparsities: Iterable[float],
    tasks: Sequence[Task],
    *,
    model: str,
    ranker: str,
    task_name: str,
    progress: Progress | None = None,
    store_of: StoreOf = lambda reading, cut: Collected(),
) -> Curve:
    """Measure what each size keeps, on all tasks.

    Every batch is made once and goes through the full model and all sizes. What stays in memory are the embeddings of
    all of them: 4 bytes × width × inputs × sizes; with the stores of a `Cache`, of two at a time.

    Args:
        elastic: The elastic model.
        sparsities: The sizes; repeated ones count once.
        tasks: What to measure.
        model: The model's name, for the curve.
        ranker: How its units were ranked, for the curve.
        task_name: What it is measured on, for the curve.
        progress: Called after each batch with what is being done and the fraction of the whole that is done.
        store_of: Where outputs are kept; by default in memory.

    Raises:
        InputError: There are no sparsities or tasks, or a task's inputs can't be embedded.
        BudgetError: A sparsity can't be met.
    """
    sizes = sorted(set(sparsities))
    if not sizes or not tasks:
        raise InputError(f"{len(sizes)} sparsities and {len(tasks)} tasks: a curve needs at least one of each.")
    # All planned first: a budget that can't be met fails before the long part.
    full_cut, cuts = elastic.plan(sparsity=0.0), [elastic.plan(sparsity=sparsity) for sparsity in sizes]
    readings = list(dict.fromkeys(reading for task in tasks for reading in task.readings))
    work = max(1, sum(len(reading.items) for reading in readings))
    report = progress or (lambda label, fraction: None)
    models = _Models(elastic, report, work, store_of)
    for reading in readings:
        models.read(reading, sizes)
    full = _Size(models, 0.0)
    own = _scores(tasks, full, full)
    points: list[Point] = []
    for sparsity, cut in zip(sizes, cuts, strict=True):
        report(f"scoring {sparsity:.0%}", 1.0)
        price = elastic.cost(cut)
        metrics = own if cut.widths == full_cut.widths else _scores(tasks, full, _Size(models, sparsity))
        points.append(Point(sparsity, price.sparsity, price.parameters, price.macs, metrics))
    price = elastic.cost(full_cut)
    return Curve(model, ranker, task_name, tuple(points), price.tokens, price.parameters, price.macs, own)


def _scores(tasks: Sequence[Task], full: Size, slim: Size) -> dict[str, Metric]:
    found: dict[str, Metric] = {}
    for task in tasks:
        scored: Mapping[str, Metric] = task.score(full, slim)
        if twice := sorted(set(found) & set(scored)):
            raise InputError(f"Two tasks measure {twice[0]!r}, which can't be told apart. Leave one out.")
        found.update(scored)
    return found


def measure(
    elastic: Sizes,
    sparsities: Iterable[float],
    task: RetrievalTask | None,
    texts: Sequence[str],
    batches_of: Callable[[Sequence[str]], Iterable[Batch]],
    pooling: str,
    *,
    model: str,
    ranker: str,
    task_name: str,
    progress: Progress | None = None,
) -> Curve:
    """Measure each size's fidelity on texts and, with a task, its retrieval: the short form of `evaluate`.

    Args:
        elastic: The elastic model.
        sparsities: The sizes; repeated ones count once.
        task: Queries and documents to measure on; None measures fidelity on `texts` alone.
        texts: What to measure fidelity on without a task; with one, its own queries and documents are used.
        batches_of: Makes the model's inputs from texts, in their order.
        pooling: How token outputs become one embedding: `cls`, `mean`, `last` or `pooler`.
        model: The model's name, for the curve.
        ranker: How its units were ranked, for the curve.
        task_name: What it is measured on, for the curve.
        progress: Called after each batch with what is being done and the fraction of the whole that is done.

    Raises:
        InputError: There are no sparsities or texts, or embedding fails.
        BudgetError: A sparsity can't be met.
    """
    reading = Reading(texts if task is None else task.queries + task.documents, batches_of, pooling)
    tasks: list[Task] = [Fidelity(reading)]
    if task is not None:
        tasks.append(Retrieval(task, reading))
    return evaluate(elastic, sparsities, tasks, model=model, ranker=ranker, task_name=task_name, progress=progress)
