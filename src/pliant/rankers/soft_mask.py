"""The method: scores learned through soft masks over frozen weights, for all budgets at once."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pliant.batches import Batch, forward, to_device
from pliant.errors import InputError
from pliant.gates import Gates
from pliant.objectives import Target
from pliant.rankers import fisher
from pliant.rankers.calibration import Calibration
from pliant.rankers.snapshot import Snapshot
from pliant.rankers.soft_topk import hard_topk, soft_topk


@dataclass(frozen=True)
class SoftMask:
    """How the search goes.

    Args:
        steps: Steps of Adam.
        sparsities: Sparsities in one step, one from each stratum of [0, `highest`].
        highest: The highest sparsity that is trained.
        rate: Adam's step size for scores at the start, in standard deviations of the first scores; it falls to a
            tenth along a cosine.
        rest_rate: Adam's step size for rest values, in standard deviations of a site's rest values; 0 leaves them at
            what was measured. Rest values of zero stay zero.
        hot: Temperature of the first step, in standard deviations of the first scores.
        cold: Temperature of the last step.
        judge_every: Steps between looks at the held-out loss.
        ladder: Sparsities of the hard masks that are judged.
        checkpointing: Keep only each layer's input for the backward pass and run the layer again there: less memory
            for about half as much time again, and the same ranking.
    """

    steps: int = 240
    sparsities: int = 2
    highest: float = 0.85
    rate: float = 0.3
    rest_rate: float = 0.05
    hot: float = 1.0
    cold: float = 0.1
    judge_every: int = 40
    ladder: tuple[float, ...] = (0.3, 0.5, 0.7)
    checkpointing: bool = False

    def __post_init__(self) -> None:
        """Refuse settings that no search can go by."""
        allowed = {
            "steps is at least 0, sparsities and judge_every 1": self.steps
            >= 0
            < min(self.sparsities, self.judge_every),
            "highest is in (0, 1)": 0 < self.highest < 1,
            "the ladder has sparsities in [0, 1)": bool(self.ladder) and all(0 <= rung < 1 for rung in self.ladder),
            "rate is positive and rest_rate isn't negative": self.rate > 0 and self.rest_rate >= 0,
            "hot is at least cold, which is positive": self.hot >= self.cold > 0,
        }
        broken = [rule for rule, holds in allowed.items() if not holds]
        if broken:
            raise InputError(f"{self} can't be searched with: {'; '.join(broken)}. Change that.")

    def temperature(self, step: int) -> float:
        """Return the temperature at `step`: geometric from `hot` to `cold`."""
        return self.hot * (self.cold / self.hot) ** (step / max(1, self.steps - 1))

    def decay(self, step: int) -> float:
        """Return what step sizes are multiplied by at `step`: from 1 to 0.1 along a cosine."""
        return 0.55 + 0.45 * math.cos(math.pi * step / max(1, self.steps))


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found.

    Args:
        scores: The scores with the best held-out loss `[units]`.
        rest: The rest values that go with them.
        loss: That loss: the mean over the ladder of hard masks.
        step: The step it was found at.
        losses: Training loss of every step.
    """

    scores: Tensor
    rest: tuple[Tensor, ...]
    loss: float
    step: int
    losses: tuple[float, ...]


Watch = Callable[[int, float], None]
"""Called after every step with the number of steps done and the step's loss."""

_HeldOut = list[tuple[Batch, Target]]


class Search:
    """One run of the method; can stop after any step and go on from a snapshot."""

    def __init__(
        self, calibration: Calibration, settings: SoftMask, identity: str, saved: Snapshot | None = None
    ) -> None:
        """Start from standardised log Fisher scores, or from where a snapshot was taken.

        Args:
            calibration: The model and what to rank it with.
            settings: How the search goes.
            identity: Describes the search in snapshots.
            saved: What to go on from.
        """
        self.calibration = calibration
        self.settings = settings
        self.identity = identity
        start = saved or self._start()
        self.scores = start.scores.clone().requires_grad_()
        self.rest = tuple(rest.clone() for rest in start.rest)
        self.best, self.best_rest = start.best, start.best_rest
        self.best_loss, self.best_step = start.best_loss, start.best_step
        self.losses: list[float] = start.losses.tolist()
        self._rates = [(self.scores, settings.rate), *self._rest_rates()]
        groups = [{"params": [parameter], "lr": rate} for parameter, rate in self._rates]
        self._adam = torch.optim.Adam(groups, betas=(0.9, 0.95), eps=1e-12)
        self._restore_adam(start)

    def _start(self) -> Snapshot:
        scores = standardised_log(fisher.scores(self.calibration))
        rest = self.calibration.rest
        nothing = torch.zeros(0, dtype=torch.float64)
        return Snapshot(self.identity, scores, rest, rest, (), (), scores, rest, float("inf"), 0, nothing)

    def _rest_rates(self) -> list[tuple[Tensor, float]]:
        """Return the rest values that are learned, with their step sizes."""
        spreads = [rest.std(correction=0).item() for rest in self.calibration.rest]
        if self.settings.rest_rate == 0 or not any(spreads):
            return []
        return [
            (rest.requires_grad_(), self.settings.rest_rate * spread)
            for rest, spread in zip(self.rest, spreads, strict=True)
        ]

    def _restore_adam(self, start: Snapshot) -> None:
        moments = zip(self._rates, start.means, start.squares, strict=False)
        for (parameter, _), mean, square in moments:
            step = torch.tensor(float(start.step))
            self._adam.state[parameter] = {"step": step, "exp_avg": mean.clone(), "exp_avg_sq": square.clone()}

    def snapshot(self) -> Snapshot:
        """Return the present state."""
        states = [self._adam.state[parameter] for parameter, _ in self._rates if parameter in self._adam.state]
        return Snapshot(
            identity=self.identity,
            scores=self.scores.detach(),
            measured=self.calibration.rest,
            rest=tuple(rest.detach() for rest in self.rest),
            means=tuple(state["exp_avg"] for state in states),
            squares=tuple(state["exp_avg_sq"] for state in states),
            best=self.best,
            best_rest=self.best_rest,
            best_loss=self.best_loss,
            best_step=self.best_step,
            losses=torch.tensor(self.losses, dtype=torch.float64),
        )

    def run(self, checkpoint: Path | None, watch: Watch | None) -> Found:
        """Do the steps that are left, judging and saving on the way.

        Args:
            checkpoint: File to save snapshots in.
            watch: Called after every step.

        Raises:
            InputError: A loss is not finite, or a snapshot can't be written.
        """
        calibration, settings = self.calibration, self.settings
        batches = calibration.stream.training(first=len(self.losses))
        with calibration.gated(self.rest) as gates:
            held_out = [(batch, self._target(gates, batch)) for batch in self._held_out()]
            if not self.losses:
                self._judge(gates, held_out)
            while len(self.losses) < settings.steps:
                loss = self._step(gates, to_device(next(batches), calibration.device))
                self.losses.append(loss)
                if len(self.losses) % settings.judge_every == 0 or len(self.losses) == settings.steps:
                    self._judge(gates, held_out)
                    if checkpoint is not None:
                        self.snapshot().save(checkpoint)
                if watch is not None:
                    watch(len(self.losses), loss)
        return Found(self.best, self.best_rest, self.best_loss, self.best_step, tuple(self.losses))

    def _held_out(self) -> list[Batch]:
        return [to_device(batch, self.calibration.device) for batch in self.calibration.stream.held_out]

    def _target(self, gates: Gates, batch: Batch) -> Target:
        gates.masks = None
        with torch.no_grad():
            return self.calibration.objective.target(forward(self.calibration.model, batch), batch)

    def _loss(self, gates: Gates, masks: Tensor, batch: Batch, target: Target) -> Tensor:
        gates.masks = masks
        return self.calibration.objective.loss(forward(self.calibration.model, batch), target, batch)

    def _step(self, gates: Gates, batch: Batch) -> float:
        """Take one step of Adam on the mean loss of several sparsities; return that loss."""
        step = len(self.losses)
        target = self._target(gates, batch)
        total, scale = 0.0, self.calibration.loss_scale
        self._adam.zero_grad()
        for sparsity in self._drawn(step):
            masks = soft_topk(self.scores, self.calibration.costs, sparsity, self.settings.temperature(step))
            loss = self._loss(gates, masks, batch, target) / self.settings.sparsities
            torch.autograd.backward(loss * scale, inputs=[parameter for parameter, _ in self._rates])
            total += loss.item()
        if not math.isfinite(total):
            raise InputError(f"The loss of step {step + 1} is {total}. Check the objective, or use float32.")
        for group, (parameter, rate) in zip(self._adam.param_groups, self._rates, strict=True):
            if parameter.grad is not None:
                parameter.grad /= scale
            group["lr"] = rate * self.settings.decay(step)
        self._adam.step()
        return total

    def _drawn(self, step: int) -> list[float]:
        """Return one sparsity from each stratum: drawn from the seed and the step alone, so that runs can resume."""
        count = self.settings.sparsities
        jitter = torch.rand(count, generator=self.calibration.generator(salt=1000 + step), dtype=torch.float64)
        return ((torch.arange(count) + jitter) * (self.settings.highest / count)).tolist()

    @torch.no_grad()
    def _judge(self, gates: Gates, held_out: _HeldOut) -> None:
        """Keep the scores if their hard masks lose less on the held-out inputs than any before."""
        total = 0.0
        for sparsity in self.settings.ladder:
            masks = hard_topk(self.scores.detach(), self.calibration.costs, sparsity)
            total += sum(self._loss(gates, masks, batch, target).item() for batch, target in held_out)
        loss = total / (len(held_out) * len(self.settings.ladder))
        if loss < self.best_loss:
            self.best, self.best_rest = self.scores.detach().clone(), tuple(rest.detach().clone() for rest in self.rest)
            self.best_loss, self.best_step = loss, len(self.losses)


def standardised_log(values: Tensor) -> Tensor:
    """Return log values with mean 0 and standard deviation 1, float32; zeros count as the smallest value there is."""
    positive = values[values > 0]
    floor = positive.min() if len(positive) else values.new_tensor(1.0)
    logs = values.clamp(min=floor).log()
    return ((logs - logs.mean()) / logs.std().clamp(min=1e-12)).float()
