"""`rank`: one criterion, one model, one ranking."""

import hashlib
import json
import operator
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from pliant.batches import Batch, device_of, precision_of
from pliant.errors import InputError
from pliant.families import describe
from pliant.gates import frozen
from pliant.objectives import Objective, objective_of
from pliant.rankers import fisher, flap, kwon, lamp, magnitude, obs, random, snapvit, snip, taylor, variance
from pliant.rankers.calibration import Calibration, Stream, observed, rest_values, unit_costs
from pliant.rankers.search import Found, Search, Watch
from pliant.rankers.snapshot import Snapshot
from pliant.rankers.soft_mask import SoftMask
from pliant.ranking import Ranking, Rest, fingerprint, sampled

Scorer = Callable[[Calibration], Tensor]

SCORERS: dict[str, Scorer] = {
    "fisher": fisher.scores,
    "taylor": taylor.scores,
    "kwon": kwon.scores,
    "obs": obs.scores,
    "flap": flap.scores,
    "variance": variance.scores,
    "snip": snip.scores,
    "magnitude": magnitude.scores,
    "lamp": lamp.scores,
    "snapvit": snapvit.scores,
    "random": random.scores,
}
"""The criteria in closed form, and `snapvit`, which also searches a factor for each block."""

Compensation = Literal["measured", "learned"]
"""What makes up for removed units; see `rank`."""

RANKERS = ("soft-mask", *SCORERS)
"""The names that `ranker` may have; `snapvit` also with its number of evaluations, as in `snapvit:500`."""

ALLOWED = f"{', '.join(RANKERS)}, and snapvit:N for N evaluations"
"""The same, for people."""

PRESETS = {"fast": SoftMask(steps=80, judge_every=20), "default": SoftMask(), "best": SoftMask(settle=240)}
"""How long the soft-mask search goes on, and whether it settles."""


def rank(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    ranker: str = "soft-mask",
    pooling: str | None = None,
    rest: Rest = "mean",
    compensation: Compensation | None = None,
    seed: int = 0,
    objective: str | Objective | Callable[[Any, Batch], Tensor] | None = None,
    preset: str = "default",
    steps: int | None = None,
    settings: SoftMask | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    watch: Watch | None = None,
) -> Ranking:
    """Rank every MLP neuron and attention head of a model on one scale; the model stays as it was.

    Args:
        model: A transformer encoder of a supported family.
        batches: Calibration inputs, unlabelled: an iterable of dicts of tensors (the model's own keyword inputs), or
            of tensors. Padding, marked by `attention_mask`, never counts. A quarter, at most 8 batches, is held out
            to select the best scores. What can be read again must give the same batches each time: no shuffling.
        ranker: `soft-mask` (the method), or a baseline: `fisher`, `taylor`, `kwon`, `obs`, `flap`, `variance`, `snip`,
            `magnitude`, `lamp`, `snapvit`, `random`. `snapvit:500` is `snapvit` with 500 evaluations in place of 50.
        pooling: How token outputs become the embedding that is to be kept: `cls`, `mean`, `last`, `pooler`, or
            `tokens` for every token's output; by default the family's.
        rest: What stands in for removed units: their `mean` activation, or `zero`.
        compensation: What makes up for removed units: rest values as they were `measured`, or `learned` ones, and with
            them gains and biases of the norms at each size. By default `learned` with `soft-mask`, which learns rest
            values as it searches and norms when it settles, and `measured` with a baseline and where the rest is zero.
            A baseline that learns takes as many steps as the search, all of them to settle.
        seed: One seed gives one ranking on one machine.
        objective: `pooled` (keep the embedding), `tokens`, `pooled+tokens` (both), `task` (the model's own loss, with
            labels in the batches), or a function of the model's outputs and the batch that returns a scalar loss; by
            default the family's.
        preset: `default`, `fast` for a rougher ranking in a third of the time, or `best` to settle as well, in twice
            the time.
        steps: Steps of the search, in place of the preset's.
        settings: All settings of the search, in place of the preset's.
        checkpoint: File to keep the state of the search in.
        resume: Go on from `checkpoint`, if it is there.
        watch: Called after every step of the search, or every evaluation of `snapvit`, with how many are done and the
            loss.

    Returns:
        The ranking.

    Raises:
        InputError: An argument has a value that isn't allowed, there are fewer than two batches, or activations,
            gradients or losses are not finite.
        UnsupportedModelError: No family knows the model.
        ArtefactError: The checkpoint is damaged or belongs to another search.

    Source:
        "Your Transformer Is Secretly Elastic" (2026), and for the baselines see their modules.
    """
    seed = _whole(seed, "seed")
    chosen = _settings(ranker, preset, None if steps is None else _whole(steps, "steps"), settings)
    compensation = _compensation(compensation, ranker, rest)
    chosen = _compensated(chosen, compensation, ranker)
    searches = ranker == "soft-mask" or compensation == "learned"
    anatomy = describe(model)
    pooling = anatomy.pooling if pooling is None else pooling
    goal = objective_of(objective or anatomy.objective, pooling)
    stream = Stream(batches)
    device = device_of(model)
    about: dict[str, Any] = {"ranker": ranker, "objective": goal.name, "rest": rest, "seed": seed}
    about |= {"pooling": pooling, "dtype": precision_of(model), "compensation": compensation}
    if searches:
        # What doesn't change the ranking is no part of it, and may be another when a search goes on.
        about["settings"] = {name: value for name, value in asdict(chosen).items() if name != "checkpointing"}
    mark = fingerprint(model, anatomy)
    # A caller may have switched gradients off for what runs afterwards.
    with torch.inference_mode(False), torch.enable_grad(), frozen(model):
        identity = json.dumps({**about, "model": mark, "data": _digest(stream.held_out)}, sort_keys=True)
        saved = _saved(checkpoint, identity, device) if resume else None
        values = saved.measured if saved else _finite(rest_values(model, anatomy, observed(stream, device), rest))
        costs = unit_costs(anatomy, device)
        calibration = Calibration(model, anatomy, stream, goal, values, costs, seed, chosen.checkpointing, watch)
        scores, norms = None if ranker == "soft-mask" else _fixed(ranker, calibration, saved), None
        if searches:
            search = Search(calibration, chosen, identity, saved, scores)
            found = search.run(None if checkpoint is None else Path(checkpoint), watch)
            scores, values, norms, about = found.scores, found.rest, found.norms, about | _story(found)
        assert scores is not None
    about |= {"torch": torch.__version__, "family": anatomy.family}
    on_cpu = tuple(value.cpu() for value in values)
    return Ranking(_scaled(scores), on_cpu, rest, mark, about, sampled(model, anatomy), norms=norms)


def _whole(value: int, name: str) -> int:
    """Return an integer of whatever kind as Python's own, which JSON can hold."""
    try:
        return operator.index(value)
    except TypeError as error:
        raise InputError(f"{name}={value!r} is no integer. Pass one, such as {name}=1.") from error


def is_ranker(name: str) -> bool:
    """Say whether `rank` takes a name: one of `RANKERS`, or `snapvit:` and a number of evaluations."""
    ranker, _, count = name.partition(":")
    return name in RANKERS or (ranker == "snapvit" and count.isascii() and count.isdigit() and len(count) < 10)


def evaluations_of(ranker: str) -> int:
    """Return how many evaluations a ranker's name asks for; 0 where it makes none.

    Raises:
        InputError: There is no such ranker.
    """
    if not is_ranker(ranker):
        raise InputError(f"Unknown ranker {ranker!r}. Allowed: {ALLOWED}.")
    name, _, count = ranker.partition(":")
    return int(count or snapvit.EVALUATIONS) if name == "snapvit" else 0


def _scorer(ranker: str) -> Scorer:
    if ranker in SCORERS:
        return SCORERS[ranker]
    return partial(snapvit.scores, evaluations=evaluations_of(ranker))


def _settings(ranker: str, preset: str, steps: int | None, settings: SoftMask | None) -> SoftMask:
    evaluations_of(ranker)
    if preset not in PRESETS:
        raise InputError(f"Unknown preset {preset!r}. Allowed: {', '.join(PRESETS)}.")
    if steps is not None and steps < 1:
        raise InputError(f"steps={steps} is too few: at least 1.")
    if settings is not None and not isinstance(settings, SoftMask):
        raise InputError(f"settings={settings!r:.60} are no SoftMask. Pass one, such as SoftMask(steps=100).")
    chosen = settings or PRESETS[preset]
    return chosen if steps is None else replace(chosen, steps=steps)


def _compensation(asked: Compensation | None, ranker: str, rest: Rest) -> Compensation:
    """Return what was asked for, or what is usual.

    Raises:
        InputError: It is unknown, or there is nothing to learn.
    """
    if asked not in (None, *get_args(Compensation)):
        raise InputError(f"Unknown compensation {asked!r}. Allowed: {', '.join(get_args(Compensation))}.")
    if asked == "learned" and rest == "zero":
        raise InputError("With rest='zero' nothing makes up for removed units. Use rest='mean' to learn compensation.")
    return asked or ("learned" if ranker == "soft-mask" and rest != "zero" else "measured")


def _compensated(settings: SoftMask, compensation: Compensation, ranker: str) -> SoftMask:
    """Return the settings of a search that compensates in this way; a baseline does nothing but settle."""
    if compensation == "measured":
        return replace(settings, settle=0, rest_rate=0.0, norm_rate=0.0)
    return settings if ranker == "soft-mask" else replace(settings, steps=0, settle=settings.settle or settings.steps)


def _saved(checkpoint: str | Path | None, identity: str, device: torch.device) -> Snapshot | None:
    if checkpoint is None or not Path(checkpoint).exists():
        return None
    return Snapshot.load(Path(checkpoint), identity, device)


def _finite(values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    if not all(torch.isfinite(value).all() for value in values):
        raise InputError(
            "The model's activations are not finite on the calibration inputs. Check its weights, or use float32."
        )
    return values


def _fixed(ranker: str, calibration: Calibration, saved: Snapshot | None) -> Tensor:
    """Return a baseline's scores, from a snapshot where there is one."""
    return saved.present.scores if saved else _scaled(_scorer(ranker)(calibration)).to(calibration.device)


def _story(found: Found) -> dict[str, Any]:
    losses = [round(loss, 5) for loss in found.losses]
    return {"held_out_loss": found.loss, "best_step": found.step, "losses": losses}


def _scaled(scores: Tensor) -> Tensor:
    """Return scores on the CPU in float32, with the largest at magnitude one, so that no score underflows."""
    values = scores.detach().cpu().double()
    return (values / values.abs().max().clamp(min=torch.finfo(torch.float64).tiny)).float()


def _digest(batches: list[Batch]) -> str:
    total = hashlib.sha256()
    for batch in batches:
        tensors = [batch] if isinstance(batch, Tensor) else [batch[name] for name in sorted(batch)]
        for tensor in tensors:
            total.update(f"{tensor.dtype} {list(tensor.shape)}".encode())
            total.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
