"""`pliant eval`: what each size of an elastic directory keeps."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pliant.artefacts import load_elastic
from pliant.batches import Batch
from pliant.checkpoint import DEMO_MODEL, DEMO_VISION, Checkpoint, open_checkpoint
from pliant.cli.calibration import CalibrationData, check_image_size
from pliant.cli.console import Json, Quiet, Report, check_positive, emit, numbers, progress, show
from pliant.cli.prompts import DocumentPrompt, Prompt, QueryPrompt, prompted, prompts_of, usual_pooling
from pliant.conventions import Prompts
from pliant.data import DEMO_IMAGES, ImageBatches, TextBatches, images, pairs, sample, texts
from pliant.elastic import Elastic
from pliant.errors import InputError
from pliant.evaluation import Curve, Kept, RetrievalTask, check_plot, kept_plot, plot, table, write_report
from pliant.evaluation.measure import evaluate as evaluate_sizes
from pliant.evaluation.reading import Reading
from pliant.evaluation.tasks.dense import Dense
from pliant.evaluation.tasks.fidelity import Fidelity
from pliant.evaluation.tasks.retrieval import Retrieval
from pliant.evaluation.tasks.task import Task
from pliant.files import check_writable, replacing
from pliant.rankers.rank import RANKERS
from pliant.rankers.rank import rank as rank_model
from pliant.ranking import Ranking

if TYPE_CHECKING:
    from PIL.Image import Image

TASKS = ("fidelity", "retrieval")
_SPARSITIES = "0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8"

# An image takes some hundred times as long as a short text.
_MOST = {"text": 2000, "image": 200}


@dataclass(frozen=True)
class Inputs:
    """What is measured: queries and documents, texts, or images.

    Args:
        name: What to call it.
        task: Queries and documents; None measures fidelity alone.
        texts: The texts, where there is no task.
        images: The images, for a model of images.
    """

    name: str
    task: RetrievalTask | None = None
    texts: tuple[str, ...] = ()
    images: "tuple[Path | Image, ...]" = ()

    def with_prompts(self, prompts: Prompts) -> "Inputs":
        """Return the same inputs, queries and documents with their prompts, single texts with both in turn."""
        task = self.task and replace(
            self.task,
            queries=prompted(self.task.queries, (prompts.query,)),
            documents=prompted(self.task.documents, (prompts.document,)),
        )
        return replace(self, task=task, texts=prompted(self.texts, prompts.distinct))


def evaluate(
    directory: Annotated[Path, typer.Argument(help="An elastic directory.")],
    data: Annotated[str | None, typer.Option(help="Inputs: text file, table or folder; else the demo's.")] = None,
    column: Annotated[str | None, typer.Option(help="Column of a table, to measure fidelity on.")] = None,
    query_column: Annotated[str | None, typer.Option(help="Column of queries, to measure retrieval.")] = None,
    document_column: Annotated[str | None, typer.Option(help="Column of their documents.")] = None,
    tasks: Annotated[str, typer.Option(help="fidelity, or fidelity,retrieval.")] = ",".join(TASKS),
    sparsity: Annotated[str, typer.Option(help="Sizes, with commas.")] = _SPARSITIES,
    against: Annotated[str, typer.Option(help="Other rankers to compare with, with commas.")] = "",
    calibration: Annotated[str | None, typer.Option(help="Data for those rankers; by default what was used.")] = None,
    inputs: Annotated[int | None, typer.Option(help="At most so many: by default 2000 texts or 200 images.")] = None,
    batch_size: Annotated[int, typer.Option(help="Inputs in a batch.")] = 32,
    max_tokens: Annotated[int, typer.Option(help="Longer texts are cut off.")] = 128,
    image_size: Annotated[int | None, typer.Option(help="Height and width of images, in pixels.")] = None,
    pooling: Annotated[str | None, typer.Option(help="In place of the ranking's: cls, mean, last or pooler.")] = None,
    prompt: Prompt = None,
    query_prompt: QueryPrompt = None,
    document_prompt: DocumentPrompt = None,
    report: Annotated[Path | None, typer.Option(help="Write a self-contained HTML page.")] = None,
    plot_path: Annotated[Path | None, typer.Option("--plot", help="Write the curve as a PNG.")] = None,
    kept_path: Annotated[Path | None, typer.Option("--kept-plot", help="Write what each layer keeps as a PNG.")] = None,
    json_path: Annotated[Path | None, typer.Option("--save", help="Write the curves as JSON.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure what each size keeps, as a table, a plot and a report."""
    sizes, rivals = numbers(sparsity, "--sparsity"), _rivals(against)
    _check_sizes(("inputs", inputs), ("batch-size", batch_size), ("max-tokens", max_tokens), ("image-size", image_size))
    _check_outputs((report, json_path), (plot_path, kept_path))
    with progress(quiet or as_json) as advance:
        advance("loading", 0)
        checkpoint, ranking = load_elastic(directory)
        check_image_size(image_size, checkpoint)
        prompts = prompts_of(checkpoint, (prompt, query_prompt, document_prompt), ranking)
        measured = _inputs(checkpoint, ranking, data, column, (query_column, document_column), tasks, inputs)
        measured = measured.with_prompts(prompts)
        sources = _calibration(ranking, calibration) if rivals else None
        elastic = Elastic(checkpoint.model, ranking)
        kept = Kept.of(elastic, sizes)
        name = str(ranking.provenance.get("model", directory))
        pooling = usual_pooling(checkpoint, pooling, prompts) or elastic.anatomy.pooling
        to_measure = _Measurement(checkpoint, measured, sizes, batch_size, max_tokens, image_size, pooling, name)
        curves = [to_measure.curve(elastic, str(ranking.provenance.get("ranker", "ranking")), advance)]
        for rival in rivals:
            curves.append(to_measure.curve(_rival(directory, rival, ranking, sources), rival, advance))
    _write(curves, kept, json_path, plot_path, kept_path)
    if report is not None:
        write_report(report, curves, kept, _provenance(ranking, elastic))
    show(table(curves), quiet or as_json)
    if as_json:
        emit({"curves": [curve.to_json() for curve in curves]})


def _check_sizes(*given: tuple[str, int | None]) -> None:
    for option, value in given:
        if value is not None:
            check_positive(value, f"--{option}")


def _check_outputs(files: Iterable[Path | None], plots: Iterable[Path | None]) -> None:
    """Refuse before the measurement what couldn't be written after it."""
    drawn = [path for path in plots if path is not None]
    wanted = [*drawn, *(file for file in files if file is not None)]
    if len({path.resolve() for path in wanted}) < len(wanted):
        names = ", ".join(map(str, wanted))
        raise InputError(f"One file can't hold two results: {names}. Give each output a name of its own.")
    for path in wanted:
        check_writable(path)
    for path in drawn:
        check_plot(path)


@dataclass(frozen=True)
class _Measurement:
    """How every curve of one command is measured."""

    checkpoint: Checkpoint
    inputs: Inputs
    sizes: tuple[float, ...]
    batch_size: int
    max_tokens: int
    image_size: int | None
    pooling: str
    model: str

    def curve(self, elastic: Elastic, ranker: str, report: Report) -> Curve:
        """Measure one elastic model."""
        return evaluate_sizes(
            elastic,
            self.sizes,
            self._tasks(),
            model=self.model,
            ranker=ranker,
            task_name=self.inputs.name,
            progress=lambda label, fraction: report(f"{ranker}: {label}", fraction),
        )

    def _tasks(self) -> list[Task]:
        if self.inputs.images:
            dense = Reading(self.inputs.images, self._image_batches(), self.pooling, tokens=True)
            return [Fidelity(dense), Dense(dense)]
        data = self.inputs.task
        found = data.queries + data.documents if data else self.inputs.texts
        reading = Reading(found, self._text_batches(), self.pooling)
        return [Fidelity(reading), Retrieval(data, reading)] if data else [Fidelity(reading)]

    def _image_batches(self) -> Callable[[Sequence["Path | Image"]], Iterable[Batch]]:
        processor = self.checkpoint.preprocessor()
        return lambda found: ImageBatches(found, processor, self.batch_size, image_size=self.image_size)

    def _text_batches(self) -> Callable[[Sequence[str]], Iterable[Batch]]:
        tokenizer = self.checkpoint.preprocessor()
        longest = min(self.max_tokens, self.checkpoint.max_tokens)
        return lambda found: TextBatches(found, tokenizer, self.batch_size, longest)


def _inputs(
    checkpoint: Checkpoint,
    ranking: Ranking,
    data: str | None,
    column: str | None,
    columns: tuple[str | None, str | None],
    tasks: str,
    wished: int | None,
) -> Inputs:
    """Return what to measure on; the demo models bring their own task, or images."""
    count = wished or _MOST[checkpoint.inputs]
    wanted = [task.strip() for task in tasks.split(",")]
    unknown = [task for task in wanted if task not in TASKS]
    if unknown:
        raise InputError(f"Unknown --tasks {', '.join(unknown)!r}. Allowed: {', '.join(TASKS)}.")
    if data is None and ranking.provenance.get("model") == DEMO_MODEL:
        from pliant.demo import docstring_retrieval

        task = docstring_retrieval()
        name = "docstrings of Python's standard library"
        return Inputs(name, task) if "retrieval" in wanted else Inputs(name, texts=task.queries + task.documents)
    if data is None and ranking.provenance.get("model") == DEMO_VISION:
        data = DEMO_IMAGES
    if data is None:
        raise InputError("There is nothing to measure on. Pass --data PATH: texts, a table or a folder of images.")
    read_pairs = checkpoint.inputs == "text" and "retrieval" in wanted
    if read_pairs and columns[0] is not None and columns[1] is not None:
        return Inputs(data, _pair_task(data, columns[0], columns[1], count))
    if any(columns) or "fidelity" not in wanted:
        raise InputError(
            "Retrieval needs a model of texts, --query-column and --document-column together, and retrieval in --tasks."
        )
    if checkpoint.inputs == "image":
        return _images(data, count)
    return Inputs(data, texts=tuple(sample(texts(data, column), count, seed=0)))


def _images(data: str, count: int) -> Inputs:
    """Return images of a folder, or those of the demonstration that are not for calibration."""
    if data == DEMO_IMAGES:
        from pliant.demo import evaluation_images

        found = evaluation_images()
        return Inputs(found.name, images=tuple(sample(found.images, count, seed=0)))
    return Inputs(data, images=tuple(sample(images(data), count, seed=0)))


def _pair_task(data: str, query_column: str, document_column: str, count: int) -> RetrievalTask:
    """Return the task to find each query's document among all documents of the table."""
    found = sample(pairs(data, query_column, document_column), count, seed=0)
    documents = tuple(dict.fromkeys(document for _, document in found))
    position = {document: index for index, document in enumerate(documents)}
    relevant: dict[str, set[int]] = {}
    for query, document in found:
        relevant.setdefault(query, set()).add(position[document])
    return RetrievalTask(tuple(relevant), documents, tuple(frozenset(right) for right in relevant.values()))


def _rivals(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in RANKERS]
    if unknown:
        raise InputError(f"Unknown --against {', '.join(unknown)!r}. Allowed: {', '.join(RANKERS)}.")
    return names


def _calibration(ranking: Ranking, path: str | None) -> CalibrationData:
    """Return the data that the ranking was made from, or the same amount of other data."""
    used = ranking.provenance.get("calibration")
    if used is None and path is None:
        raise InputError("The ranking doesn't say what it was made from. Pass --calibration PATH for --against.")
    source = CalibrationData(**used) if used is not None else CalibrationData(str(path))
    return source if path is None else replace(source, path=path, column=None)


def _rival(directory: Path, ranker: str, ranking: Ranking, source: CalibrationData | None) -> Elastic:
    """Rank a fresh copy of the model by another criterion, with the same data, rest values and seed."""
    assert source is not None
    checkpoint = open_checkpoint(str(directory))
    other = rank_model(
        checkpoint.model,
        source.batches(checkpoint),
        ranker=ranker,
        pooling=ranking.provenance.get("pooling"),
        objective=ranking.provenance.get("objective_wanted"),
        rest=ranking.rest_kind,
        seed=int(ranking.provenance.get("seed", 0)),
    )
    return Elastic(checkpoint.model, other)


def _write(
    curves: Sequence[Curve], kept: Kept, json_path: Path | None, plot_path: Path | None, kept_path: Path | None
) -> None:
    if json_path is not None:
        _save(json_path, curves)
    if plot_path is not None:
        plot(curves, plot_path)
    if kept_path is not None:
        kept_plot(kept, kept_path)


def _save(path: Path, curves: Sequence[Curve]) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps({"curves": [curve.to_json() for curve in curves]}, indent=1), encoding="utf-8")


def _provenance(ranking: Ranking, elastic: Elastic) -> dict[str, object]:
    """Return how the ranking was made, flat and without the long list of losses."""
    about: dict[str, object] = {"units": elastic.anatomy.units, "fingerprint": ranking.fingerprint[:16]}
    for key, value in ranking.provenance.items():
        if isinstance(value, dict):
            about.update({f"{key}: {name}": part for name, part in value.items()})
        elif key != "losses":
            about[key] = value
    return about
