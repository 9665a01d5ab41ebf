"""`pliant eval`: what each size of an elastic directory keeps."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from pliant.artefacts import RANKING, load_elastic
from pliant.checkpoint import open_checkpoint
from pliant.cli.calibration import CalibrationData, check_image_size
from pliant.cli.console import Json, Quiet, Report, check_positive, emit, numbers, progress, show
from pliant.cli.maps import fit_like_
from pliant.cli.outputs import Outputs, Result, files_of
from pliant.cli.prompts import DocumentPrompt, Prompt, QueryPrompt, prompts_of, usual_pooling
from pliant.cli.source import Asked, Readers
from pliant.cli.tasks import TASKS, Measured, measured
from pliant.conventions import MANIFEST, read_json
from pliant.elastic import Elastic
from pliant.errors import InputError
from pliant.evaluation import Curve, Kept, table
from pliant.evaluation.cache import Cache, default_folder, opened_cache
from pliant.evaluation.latency import with_latency
from pliant.evaluation.measure import evaluate as evaluate_sizes
from pliant.rankers.rank import ALLOWED, is_ranker
from pliant.rankers.rank import rank as rank_model
from pliant.ranking import Ranking
from pliant.speed.inputs import inputs_of, length_of

_SPARSITIES = "0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8"


def evaluate(
    directory: Annotated[Path, typer.Argument(help="An elastic directory.")],
    data: Annotated[list[str] | None, typer.Option(help="Text file, table, folder; or TASK=PATH for one task.")] = None,
    tasks: Annotated[str | None, typer.Option(help=f"{', '.join(TASKS)}, or module:function; with commas.")] = None,
    column: Annotated[str | None, typer.Option(help="Column of a table's texts.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Column of classes, for knn, probe, clustering.")] = None,
    train_data: Annotated[str | None, typer.Option(help="Examples for knn and probe; else half of the data.")] = None,
    query_column: Annotated[str | None, typer.Option(help="Column of queries, to measure retrieval.")] = None,
    document_column: Annotated[str | None, typer.Option(help="Column of their documents.")] = None,
    pair_columns: Annotated[str | None, typer.Option(help="Two columns for sts: sentence1,sentence2.")] = None,
    score_column: Annotated[str | None, typer.Option(help="Column of the pairs' scores: score.")] = None,
    sparsity: Annotated[str, typer.Option(help="Sizes, with commas.")] = _SPARSITIES,
    against: Annotated[str, typer.Option(help="Other rankers to compare with, with commas.")] = "",
    calibration: Annotated[str | None, typer.Option(help="Data for those rankers; by default what was used.")] = None,
    inputs: Annotated[int | None, typer.Option(help="At most so many: by default 2000 texts or 200 images.")] = None,
    batch_size: Annotated[int, typer.Option(help="Inputs in a batch.")] = 32,
    max_tokens: Annotated[int, typer.Option(help="Longer texts are cut off.")] = 128,
    image_size: Annotated[int | None, typer.Option(help="Height and width of images, in pixels.")] = None,
    latency: Annotated[bool, typer.Option("--latency", help="Time every size too, with one input.")] = False,
    pooling: Annotated[str | None, typer.Option(help="In place of the ranking's: cls, mean, last or pooler.")] = None,
    prompt: Prompt = None,
    query_prompt: QueryPrompt = None,
    document_prompt: DocumentPrompt = None,
    report: Annotated[Path | None, typer.Option(help="Write a self-contained HTML page.")] = None,
    plot_path: Annotated[Path | None, typer.Option("--plot", help="Write the curve as a PNG.")] = None,
    kept_path: Annotated[Path | None, typer.Option("--kept-plot", help="Write what each layer keeps as a PNG.")] = None,
    json_path: Annotated[Path | None, typer.Option("--save", help="Write the curves as JSON.")] = None,
    csv_path: Annotated[Path | None, typer.Option("--csv", help="Write a row for each metric of each size.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Where the full model's outputs are kept.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Keep nothing for the next time.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure what each size keeps, as a table, a plot and a report."""
    _check_sizes(("inputs", inputs), ("batch-size", batch_size), ("max-tokens", max_tokens), ("image-size", image_size))
    outputs = Outputs(report, plot_path, kept_path, json_path, csv_path)
    columns = (column, label_column, train_data, query_column, document_column, pair_columns, score_column)
    asked = Asked(tasks, tuple(data or ()), *columns, inputs)
    outputs.check(files_of(directory, asked.paths))
    sizes, rivals = numbers(sparsity, "--sparsity"), _rivals(against)
    reading = (batch_size, max_tokens, image_size)
    with progress(quiet or as_json) as advance:
        subject = _Subject.open(directory, asked, (prompt, query_prompt, document_prompt), pooling, reading)
        sources = _calibration(subject.ranking, calibration) if rivals else None
        with opened_cache(None if no_cache else cache or default_folder(), _contents(directory)) as kept:
            result = subject.result(sizes, rivals, sources, kept, latency, advance)
            outputs.write(result)
            kept.finish()
    show(table(result.curves), quiet or as_json)
    if as_json:
        emit(result.to_json())


@dataclass(frozen=True)
class _Subject:
    """The model that is measured, and what it is measured on."""

    directory: Path
    ranking: Ranking
    elastic: Elastic
    readers: Readers
    measured: Measured

    @classmethod
    def open(
        cls,
        directory: Path,
        asked: Asked,
        prompt: tuple[str | None, str | None, str | None],
        pooling: str | None,
        reading: tuple[int, int, int | None],
    ) -> "_Subject":
        """Load the model and its data."""
        checkpoint, ranking = load_elastic(directory)
        batch_size, max_tokens, image_size = reading
        check_image_size(image_size, checkpoint)
        prompts = prompts_of(checkpoint, prompt, ranking)
        elastic = Elastic(checkpoint.model, ranking)
        pooling = usual_pooling(checkpoint, pooling, prompts) or elastic.anatomy.pooling
        readers = Readers(checkpoint, prompts, pooling, batch_size, max_tokens, image_size)
        return cls(directory, ranking, elastic, readers, measured(asked, readers, ranking.provenance.get("model")))

    def result(
        self,
        sizes: tuple[float, ...],
        rivals: tuple[str, ...],
        sources: CalibrationData | None,
        cache: Cache,
        latency: bool,
        report: Report,
    ) -> Result:
        """Measure the model as it is ranked, and as others would rank it."""
        ranker = str(self.ranking.provenance.get("ranker", "ranking"))
        curves: list[Curve] = []
        for name in (ranker, *rivals):
            elastic = _rival(self.directory, name, self.elastic, sources) if curves else self.elastic
            curve = self._curve(elastic, name, sizes, cache, report)
            curves.append(self._timed(curve, elastic, report) if latency else curve)
        return Result(tuple(curves), Kept.of(self.elastic, sizes), _provenance(self.ranking, self.elastic))

    def _timed(self, curve: Curve, elastic: Elastic, report: Report) -> Curve:
        """Add the time that each size takes for one input as long as any that was measured on."""
        readers = self.readers
        tokens = min(readers.max_tokens, readers.checkpoint.max_tokens)
        (one,) = inputs_of(readers.checkpoint, [1], tokens, readers.image_size)
        length = length_of(elastic.model, one) or elastic.anatomy.native_tokens
        return with_latency(curve, elastic, one, length, progress=lambda done: report(f"{curve.ranker}: timing", done))

    def _curve(self, elastic: Elastic, ranker: str, sizes: tuple[float, ...], cache: Cache, report: Report) -> Curve:
        return evaluate_sizes(
            elastic,
            sizes,
            self.measured.tasks,
            model=str(self.ranking.provenance.get("model", self.directory)),
            ranker=ranker,
            task_name=self.measured.name,
            progress=lambda label, fraction: report(f"{ranker}: {label}", fraction),
            store_of=lambda reading, cut: cache.store(elastic.ranking, reading, cut),
        )


def _contents(directory: Path) -> str:
    """Return what the model's files are known by, its ranking aside: all their digests."""
    files = read_json(directory / MANIFEST).get("files", {})
    return json.dumps({name: digest for name, digest in files.items() if name != RANKING}, sort_keys=True)


def _check_sizes(*given: tuple[str, int | None]) -> None:
    for option, value in given:
        if value is not None:
            check_positive(value, f"--{option}")


def _rivals(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if not is_ranker(name)]
    if unknown:
        raise InputError(f"Unknown --against {', '.join(unknown)!r}. Allowed: {ALLOWED}.")
    return names


def _calibration(ranking: Ranking, path: str | None) -> CalibrationData:
    """Return the data that the ranking was made from, or the same amount of other data."""
    used = ranking.provenance.get("calibration")
    if used is None and path is None:
        raise InputError("The ranking doesn't say what it was made from. Pass --calibration PATH for --against.")
    source = CalibrationData(**used) if used is not None else CalibrationData(str(path))
    return source if path is None else replace(source, path=path, column=None)


def _rival(directory: Path, ranker: str, ours: Elastic, source: CalibrationData | None) -> Elastic:
    """Rank a fresh copy of the model by another criterion; data, rest values, seed, alignment and maps are the same."""
    assert source is not None
    ranking = ours.ranking
    checkpoint = open_checkpoint(str(directory))
    batches = source.batches(checkpoint)
    other = rank_model(
        checkpoint.model,
        batches,
        ranker=ranker,
        pooling=ranking.provenance.get("pooling"),
        objective=ranking.provenance.get("objective_wanted"),
        rest=ranking.rest_kind,
        seed=int(ranking.provenance.get("seed", 0)),
    )
    elastic = Elastic(checkpoint.model, other, alignment=ours.alignment)
    fit_like_(elastic, ranking, batches)
    return elastic


def _provenance(ranking: Ranking, elastic: Elastic) -> dict[str, object]:
    """Return how the ranking was made, flat and without the long list of losses."""
    about: dict[str, object] = {"units": elastic.anatomy.units, "fingerprint": ranking.fingerprint[:16]}
    for key, value in ranking.provenance.items():
        if isinstance(value, dict):
            about.update({f"{key}: {name}": part for name, part in value.items()})
        elif key != "losses":
            about[key] = value
    return about
