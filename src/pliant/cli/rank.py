"""`pliant rank`: from a model and some data to an elastic directory."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from pliant.artefacts import write_elastic
from pliant.checkpoint import DTYPES, Checkpoint, open_checkpoint
from pliant.cli.calibration import CalibrationData, SkipCorrupt, skipped_notes
from pliant.cli.console import Json, Quiet, Report, emit, progress, show, show_notes
from pliant.cli.maps import MapsWanted, Sizes
from pliant.cli.prompts import AskedPrompts, DocumentPrompt, Prompt, QueryPrompt, prompts_of, usual_pooling
from pliant.data import DEMO_IMAGES
from pliant.demo import calibration_images
from pliant.errors import InputError
from pliant.files import refuse_existing
from pliant.objectives import OBJECTIVES
from pliant.rankers.rank import ALLOWED, PRESETS, Compensation, evaluations_of
from pliant.rankers.rank import rank as rank_model
from pliant.rankers.search import Watch
from pliant.rankers.soft_mask import SoftMask
from pliant.ranking import Ranking, Rest

_SEARCH = "search.safetensors"


def rank(
    model: Annotated[str, typer.Argument(help="A directory, a Hugging Face or timm name, demo:text or demo:vision.")],
    data: Annotated[str, typer.Option(help="Unlabelled inputs: text file, table, folder, demo:text or demo:vision.")],
    out: Annotated[Path, typer.Option(help="The elastic directory to write.")],
    column: Annotated[str | None, typer.Option(help="Column of a table.")] = None,
    pooling: Annotated[str | None, typer.Option(help="cls, mean, last, pooler or tokens.")] = None,
    objective: Annotated[str | None, typer.Option(help="What to keep: pooled, tokens or pooled+tokens.")] = None,
    ranker: Annotated[str, typer.Option(help=ALLOWED)] = "soft-mask",
    rest: Annotated[str, typer.Option(help="What stands in for removed units: mean or zero.")] = "mean",
    compensation: Annotated[str | None, typer.Option(help="Of removed units: measured or learned.")] = None,
    output_maps: Sizes = None,
    preset: Annotated[str, typer.Option(help=", ".join(PRESETS))] = "default",
    steps: Annotated[int | None, typer.Option(help="Steps of the search, in place of the preset's.")] = None,
    inputs: Annotated[int, typer.Option(help="At most so many inputs, drawn at random.")] = CalibrationData.inputs,
    batch_size: Annotated[int | None, typer.Option(help="Inputs in a batch: by default 16 texts or 8 images.")] = None,
    max_tokens: Annotated[int, typer.Option(help="Longer texts are cut off.")] = CalibrationData.max_tokens,
    noise: Annotated[float, typer.Option(help="Share of random tokens in half of the texts.")] = CalibrationData.noise,
    image_size: Annotated[int | None, typer.Option(help="Height and width of images, in pixels.")] = None,
    skip_corrupt: SkipCorrupt = False,
    seed: Annotated[int, typer.Option(help="One seed gives one ranking.")] = 0,
    prompt: Prompt = None,
    query_prompt: QueryPrompt = None,
    document_prompt: DocumentPrompt = None,
    dtype: Annotated[str, typer.Option(help=f"Of the model while it is ranked: {', '.join(DTYPES)}.")] = "auto",
    checkpointing: Annotated[bool, typer.Option("--checkpointing", help="Less memory for more time.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted ranking.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Rank every neuron and head of a model once, and write an elastic directory that runs at any size."""
    source = CalibrationData(data, column, inputs, batch_size, max_tokens, noise, seed, image_size, skip_corrupt)
    wanted = MapsWanted.of(output_maps)
    with _unfinished(out, resume) as unfinished, progress(silent := quiet or as_json) as report:
        checkpoint, source = _opened(model, dtype, source, (prompt, query_prompt, document_prompt), report, silent)
        ranking = rank_model(
            checkpoint.model,
            source.batches(checkpoint),
            ranker=ranker,
            pooling=_pooling(checkpoint, pooling, objective, source, wanted),
            seed=seed,
            **_wishes(rest, compensation, objective),
            preset=preset,
            steps=steps,
            settings=_settings(preset, checkpointing),
            checkpoint=unfinished / _SEARCH,
            resume=resume,
            watch=_watch(report, evaluations_of(ranker) or _steps(preset, steps)),
        )
        ranking = wanted.fitted(checkpoint, ranking, source, report)
        write_elastic(out, checkpoint, ranking := _with_origin(ranking, checkpoint, source, objective))
    _announce(out, ranking, quiet, as_json)


def _opened(
    model: str, dtype: str, source: CalibrationData, prompts: AskedPrompts, report: Report, silent: bool
) -> tuple[Checkpoint, CalibrationData]:
    """Open a checkpoint, say what should be known of it, and return it and the data with the prompts for it."""
    report("loading", 0)
    checkpoint = open_checkpoint(model, dtype)
    show_notes(checkpoint.conventions.notes, silent)
    report("first look", 0)
    return checkpoint, source.with_prompts(prompts_of(checkpoint, prompts))


def _pooling(
    checkpoint: Checkpoint, asked: str | None, objective: str | None, source: CalibrationData, wanted: MapsWanted
) -> str | None:
    """Return the pooling to rank for, once it is sure that the output maps that are wanted can be fitted."""
    pooling = usual_pooling(checkpoint, asked, source.prompts)
    wanted.check(checkpoint, pooling, objective)
    return pooling


def _announce(out: Path, ranking: Ranking, quiet: bool, as_json: bool) -> None:
    """Say where the elastic model is, or, for programs, how it was made."""
    show_notes(skipped_notes(ranking.provenance.get("skipped", ())), quiet or as_json)
    show(f"{out} holds the elastic model. Next: pliant eval {out}", quiet or as_json)
    if as_json:
        story = {key: value for key, value in ranking.provenance.items() if key != "losses"}
        emit({"directory": str(out), "fingerprint": ranking.fingerprint, **story})


def _settings(preset: str, checkpointing: bool) -> SoftMask | None:
    """Return a preset with checkpointing; None where the preset is all that is asked for, or none."""
    return replace(PRESETS[preset], checkpointing=True) if checkpointing and preset in PRESETS else None


@contextmanager
def _unfinished(out: Path, resume: bool) -> Iterator[Path]:
    """Yield a directory beside `out` for unfinished work; afterwards it is only there if it holds some."""
    refuse_existing(out)
    unfinished = out.with_name(f"{out.name}.partial")
    ours = [folder for folder in unfinished.parents if not folder.exists()]
    try:
        _claim(unfinished, resume)
        with _alone(unfinished):
            ours.insert(0, unfinished)
            yield unfinished
            shutil.rmtree(unfinished, ignore_errors=True)
    finally:
        # From the inside to the outside, up to the first that something is in.
        with suppress(OSError):
            for folder in ours:
                folder.rmdir()


@contextmanager
def _alone(unfinished: Path) -> Iterator[None]:
    """Refuse a second ranking into one place while the block runs; the lock ends with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows has none
        yield
        return
    handle = os.open(unfinished, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"Another ranking is writing {unfinished}. Wait for it, or choose another --out."
            ) from error
        except OSError:
            # Some network file systems know no locks.
            pass
        yield
    finally:
        os.close(handle)


def _claim(unfinished: Path, resume: bool) -> None:
    """Make the directory for unfinished work, once it is sure that it can be used."""
    try:
        present = (unfinished / _SEARCH).exists()
        unfinished.mkdir(parents=True, exist_ok=True)
        (unfinished / ".writable").touch()
        (unfinished / ".writable").unlink()
    except OSError as error:
        with suppress(OSError):
            unfinished.rmdir()
        raise InputError(f"Can't write {unfinished}: {error.strerror}. Choose another --out.") from error
    if present and not resume:
        raise InputError(
            f"{unfinished} holds an unfinished ranking. Go on with it by --resume, or remove it to start anew."
        )


def _wishes(rest: str, compensation: str | None, objective: str | None) -> dict[str, Any]:
    """Refuse what the library doesn't know, and here what only it can take: a loss with labels, or a function."""
    wishes = {"rest": rest, "compensation": compensation, "objective": objective}
    allowed = {"rest": get_args(Rest), "compensation": get_args(Compensation), "objective": OBJECTIVES}
    for name, value in wishes.items():
        if value is not None and value not in allowed[name]:
            raise InputError(f"Unknown --{name} {value!r}. Allowed: {', '.join(allowed[name])}.")
    return wishes


def _steps(preset: str, steps: int | None) -> int:
    """Return how many steps a search takes; the library says what is wrong with a preset that there isn't."""
    chosen = PRESETS.get(preset, PRESETS["default"])
    return chosen.all_steps if steps is None else steps + chosen.settle


def _watch(report: Report, steps: int) -> Watch:
    return lambda done, loss: report(f"step {done} of {steps}, loss {loss:.4f}", done / steps)


def _with_origin(ranking: Ranking, checkpoint: Checkpoint, source: CalibrationData, objective: str | None) -> Ranking:
    """Return the ranking with a note of the model, the data and the wishes that it was made from."""
    data = asdict(source)
    if Path(source.path).exists():
        data["path"] = str(Path(source.path).resolve())
    origin: dict[str, object] = {"model": checkpoint.name, "calibration": data}
    if objective is not None:
        origin["objective_wanted"] = objective
    if source.skipped:
        origin["skipped"] = list(source.skipped)
    if source.path == DEMO_IMAGES:
        # They depend on what is installed.
        origin["images"] = calibration_images().name
    return replace(ranking, provenance={**ranking.provenance, **origin})
