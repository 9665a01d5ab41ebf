"""`pliant eval`: what each size of an elastic directory keeps."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from pliant.artefacts import RANKING, load_elastic
from pliant.checkpoint import open_checkpoint
from pliant.cli.asked import Asked, HowRead
from pliant.cli.calibration import CalibrationData, SkipCorrupt, check_image_size, check_skip_corrupt, skipped_notes
from pliant.cli.console import Json, Quiet, Report, emit, numbers, progress, show, show_notes
from pliant.cli.maps import fit_like_
from pliant.cli.outputs import Outputs, Result, files_of
from pliant.cli.prompts import DocumentPrompt, Prompt, QueryPrompt, prompts_of, usual_pooling
from pliant.cli.source import Readers
from pliant.cli.tasks import TASKS, Measured, measured
from pliant.conventions import MANIFEST, read_json
from pliant.elastic import Elastic
from pliant.errors import InputError
from pliant.evaluation import Curve, Kept, table
from pliant.evaluation.cache import Cache, default_folder, opened_cache
from pliant.evaluation.latency import with_latency
from pliant.evaluation.measure import evaluate as evaluate_sizes
from pliant.intact import named
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
    mteb: Annotated[str | None, typer.Option(help="Tasks of MTEB, or module:class; with commas.")] = None,
    documents_at: Annotated[str | None, typer.Option(help="Sparsity for MTEB's documents: 0, or same.")] = None,
    sparsity: Annotated[str, typer.Option(help="Sizes, with commas.")] = _SPARSITIES,
    against: Annotated[str, typer.Option(help="Other rankers to compare with, with commas.")] = "",
    calibration: Annotated[str | None, typer.Option(help="Data for those rankers; by default what was used.")] = None,
    inputs: Annotated[int | None, typer.Option(help="At most so many: by default 2000 texts or 200 images.")] = None,
    batch_size: Annotated[int, typer.Option(help="Inputs in a batch.")] = 32,
    max_tokens: Annotated[int, typer.Option(help="Longer texts are cut off.")] = 128,
    image_size: Annotated[int | None, typer.Option(help="Height and width of images, in pixels.")] = None,
    skip_corrupt: SkipCorrupt = False,
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
    how = HowRead(batch_size, max_tokens, image_size, pooling, (prompt, query_prompt, document_prompt))
    columns = (column, label_column, train_data, query_column, document_column, pair_columns, score_column)
    asked = Asked(tasks, tuple(data or ()), *columns, inputs, mteb, documents_at, skip_corrupt)
    outputs = Outputs(report, plot_path, kept_path, json_path, csv_path)
    outputs.check(files_of(directory, asked.paths))
    sizes, rivals = numbers(sparsity, "--sparsity"), _rivals(against)
    place = None if no_cache else cache or default_folder()
    with progress(quiet or as_json) as advance:
        subject = _Subject.open(directory, asked, how, rivals, calibration, advance)
        result = subject.measured_into(outputs, sizes, place, latency, advance)
    show_notes(skipped_notes(result.skipped), quiet or as_json)
    show(table(result.curves), quiet or as_json)
    if as_json:
        emit(result.to_json())


@dataclass(frozen=True)
class _Subject:
    """The model that is measured, what it is measured on, and whom it is compared with."""

    directory: Path
    ranking: Ranking
    elastic: Elastic
    readers: Readers
    measured: Measured
    rivals: tuple[str, ...]
    calibration: CalibrationData | None

    @classmethod
    def open(
        cls,
        directory: Path,
        asked: Asked,
        how: HowRead,
        rivals: tuple[str, ...],
        calibration: str | None,
        report: Report,
    ) -> "_Subject":
        """Load the model and its data."""
        report("loading", 0)
        checkpoint, ranking = load_elastic(directory)
        check_image_size(how.image_size, checkpoint)
        check_skip_corrupt(asked.skip_corrupt, checkpoint)
        prompts = prompts_of(checkpoint, how.prompts, ranking)
        elastic = Elastic(checkpoint.model, ranking)
        # A size that there isn't is refused before the long part.
        elastic.plan(sparsity=asked.documents_sparsity or 0.0)
        pooling = usual_pooling(checkpoint, how.pooling, prompts) or elastic.anatomy.pooling
        readers = Readers(checkpoint, prompts, pooling, how.batch_size, how.max_tokens, how.image_size)
        found = measured(asked, readers, ranking.provenance.get("model"))
        sources = _calibration(ranking, calibration, asked.skip_corrupt) if rivals else None
        return cls(directory, ranking, elastic, readers, found, rivals, sources)

    @property
    def skipped(self) -> tuple[str, ...]:
        """The names of images that were left out."""
        theirs = self.calibration.skipped if self.calibration else ()
        return tuple(dict.fromkeys((*self.measured.skipped, *theirs)))

    def measured_into(
        self, outputs: Outputs, sizes: tuple[float, ...], place: Path | None, latency: bool, report: Report
    ) -> Result:
        """Measure all, and write what is wanted."""
        with opened_cache(place, _contents(self.directory)) as cache:
            curves = tuple(self.curves(sizes, cache, latency, report))
            about = _provenance(self.ranking, self.elastic, self.skipped)
            result = Result(curves, Kept.of(self.elastic, sizes), about, self.skipped)
            outputs.write(result)
            cache.finish()
        return result

    def curves(self, sizes: tuple[float, ...], cache: Cache, latency: bool, report: Report) -> Iterator[Curve]:
        """Measure the model as it is ranked, and as others would rank it."""
        ranker = str(self.ranking.provenance.get("ranker", "ranking"))
        for place, name in enumerate((ranker, *self.rivals)):
            elastic = _rival(self.directory, name, self.elastic, self.calibration) if place else self.elastic
            curve = self._curve(elastic, name, sizes, cache, report)
            yield self._timed(curve, elastic, report) if latency else curve

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


def _rivals(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if not is_ranker(name)]
    if unknown:
        raise InputError(f"Unknown --against {', '.join(unknown)!r}. Allowed: {ALLOWED}.")
    return names


def _calibration(ranking: Ranking, path: str | None, skip_corrupt: bool) -> CalibrationData:
    """Return the data that the ranking was made from, or the same amount of other data."""
    used = ranking.provenance.get("calibration")
    if used is None and path is None:
        raise InputError("The ranking doesn't say what it was made from. Pass --calibration PATH for --against.")
    source = CalibrationData(**used) if used is not None else CalibrationData(str(path))
    source = replace(source, skip_corrupt=source.skip_corrupt or skip_corrupt)
    return source if path is None else replace(source, path=path, column=None)


def _rival(directory: Path, ranker: str, ours: Elastic, source: CalibrationData | None) -> Elastic:
    """Rank a fresh copy of the model by another criterion; data, seed, alignment and compensation are the same."""
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
        compensation=ranking.provenance.get("compensation", "measured"),
        steps=ranking.provenance.get("settings", {}).get("steps"),
        seed=int(ranking.provenance.get("seed", 0)),
    )
    elastic = Elastic(checkpoint.model, other, alignment=ours.alignment)
    fit_like_(elastic, ranking, batches)
    return elastic


def _provenance(ranking: Ranking, elastic: Elastic, skipped: tuple[str, ...]) -> dict[str, object]:
    """Return how the ranking was made, flat and without the long list of losses, and what it wasn't measured on."""
    about: dict[str, object] = {"units": elastic.anatomy.units, "fingerprint": ranking.fingerprint[:16]}
    if skipped:
        about["images that can't be read"] = f"{len(skipped)}: {named(skipped)}"
    for key, value in ranking.provenance.items():
        if isinstance(value, dict):
            about.update({f"{key}: {name}": part for name, part in value.items()})
        elif key != "losses":
            about[key] = value
    return about
