"""The method: scores learned through soft masks over frozen weights, for all budgets at once."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from pliant.batches import Batch, forward, to_device
from pliant.gates import Gates, gated
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
        learning_rate: Adam's step size at the start; it falls to a tenth along a cosine.
        hot: Temperature of the first step, in standard deviations of the first scores.
        cold: Temperature of the last step.
        judge_every: Steps between looks at the held-out loss.
        ladder: Sparsities of the hard masks that are judged.
    """

    steps: int = 200
    sparsities: int = 2
    highest: float = 0.85
    learning_rate: float = 0.15
    hot: float = 1.0
    cold: float = 0.1
    judge_every: int = 20
    ladder: tuple[float, ...] = (0.3, 0.5, 0.7)

    def temperature(self, step: int) -> float:
        """Return the temperature at `step`: geometric from `hot` to `cold`."""
        return self.hot * (self.cold / self.hot) ** (step / max(1, self.steps - 1))

    def rate(self, step: int) -> float:
        """Return the learning rate at `step`."""
        turn = torch.pi * step / max(1, self.steps)
        return self.learning_rate * (0.55 + 0.45 * float(torch.cos(torch.tensor(turn))))


@dataclass(frozen=True)
class Found:
    """What a search found.

    Args:
        scores: The scores with the best held-out loss `[units]`.
        loss: That loss: the mean over the ladder of hard masks.
        step: The step it was found at.
        losses: Training loss of every step.
    """

    scores: Tensor
    loss: float
    step: int
    losses: tuple[float, ...]


Watch = Callable[[int, float], None]
"""Called after every step with the number of steps done and the step's loss."""


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
        self.momentum, self.variance = start.momentum, start.variance
        self.best, self.best_loss, self.best_step = start.best, start.best_loss, start.best_step
        self.losses: list[float] = start.losses.tolist()

    def _start(self) -> Snapshot:
        scores = standardised_log(fisher.scores(self.calibration))
        nothing = torch.zeros_like(scores)
        return Snapshot(
            identity=self.identity,
            step=0,
            scores=scores,
            momentum=nothing,
            variance=nothing.clone(),
            best=scores,
            best_loss=float("inf"),
            best_step=0,
            losses=torch.zeros(0, dtype=torch.float64),
            rest=self.calibration.rest,
        )

    def snapshot(self) -> Snapshot:
        """Return the present state."""
        return Snapshot(
            identity=self.identity,
            step=len(self.losses),
            scores=self.scores.detach(),
            momentum=self.momentum,
            variance=self.variance,
            best=self.best,
            best_loss=self.best_loss,
            best_step=self.best_step,
            losses=torch.tensor(self.losses, dtype=torch.float64),
            rest=self.calibration.rest,
        )

    def run(self, checkpoint: Path | None, watch: Watch | None) -> Found:
        """Do the steps that are left, judging and saving on the way."""
        calibration, settings = self.calibration, self.settings
        batches = calibration.stream.training(first=len(self.losses))
        with gated(calibration.model, calibration.anatomy, calibration.rest) as gates:
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
        return Found(self.best, self.best_loss, self.best_step, tuple(self.losses))

    def _held_out(self) -> list[Batch]:
        return [to_device(batch, self.calibration.device) for batch in self.calibration.stream.held_out]

    def _target(self, gates: Gates, batch: Batch) -> Tensor | None:
        gates.masks = None
        with torch.no_grad():
            return self.calibration.objective.target(forward(self.calibration.model, batch), batch)

    def _loss(self, gates: Gates, masks: Tensor, batch: Batch, target: Tensor | None) -> Tensor:
        gates.masks = masks
        return self.calibration.objective.loss(forward(self.calibration.model, batch), target, batch)

    def _step(self, gates: Gates, batch: Batch) -> float:
        """Take one step of Adam on the mean loss of several sparsities; return that loss."""
        step = len(self.losses)
        target = self._target(gates, batch)
        total = 0.0
        gradient = torch.zeros_like(self.scores)
        for sparsity in self._drawn(step):
            masks = soft_topk(self.scores, self.calibration.costs, sparsity, self.settings.temperature(step))
            loss = self._loss(gates, masks, batch, target) / self.settings.sparsities
            gradient += torch.autograd.grad(loss, self.scores)[0]
            total += loss.item()
        self._adam_(gradient, step)
        return total

    def _drawn(self, step: int) -> list[float]:
        """Return one sparsity from each stratum: drawn from the seed and the step alone, so that runs can resume."""
        count = self.settings.sparsities
        jitter = torch.rand(count, generator=self.calibration.generator(salt=1000 + step), dtype=torch.float64)
        return ((torch.arange(count) + jitter) * (self.settings.highest / count)).tolist()

    @torch.no_grad()
    def _adam_(self, gradient: Tensor, step: int) -> None:
        self.momentum.lerp_(gradient, 0.1)
        self.variance.lerp_(gradient.square(), 0.05)
        mean, variance = self.momentum / (1 - 0.9 ** (step + 1)), self.variance / (1 - 0.95 ** (step + 1))
        self.scores.sub_(self.settings.rate(step) * mean / (variance.sqrt() + 1e-12))

    @torch.no_grad()
    def _judge(self, gates: Gates, held_out: list[tuple[Batch, Tensor | None]]) -> None:
        """Keep the scores if their hard masks lose less on the held-out inputs than any before."""
        total = 0.0
        for sparsity in self.settings.ladder:
            masks = hard_topk(self.scores.detach(), self.calibration.costs, sparsity)
            total += sum(self._loss(gates, masks, batch, target).item() for batch, target in held_out)
        loss = total / (len(held_out) * len(self.settings.ladder))
        if loss < self.best_loss:
            self.best, self.best_loss, self.best_step = self.scores.detach().clone(), loss, len(self.losses)

    def describe(self) -> dict[str, object]:
        """Return the settings, for provenance."""
        return asdict(self.settings)


def standardised_log(values: Tensor) -> Tensor:
    """Return log values with mean 0 and standard deviation 1, float32; zeros count as the smallest value there is."""
    positive = values[values > 0]
    floor = positive.min() if len(positive) else values.new_tensor(1.0)
    logs = values.clamp(min=floor).log()
    return ((logs - logs.mean()) / logs.std().clamp(min=1e-12)).float()
