"""The method: scores learned through soft masks over frozen weights, and what compensates for the units removed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from pliant.batches import Batch, forward, to_device
from pliant.errors import InputError
from pliant.gates import Gates
from pliant.objectives import Target
from pliant.rankers import fisher
from pliant.rankers.calibration import Calibration
from pliant.rankers.snapshot import Snapshot, Solution
from pliant.rankers.soft_mask import SoftMask
from pliant.rankers.soft_topk import hard_topk, soft_topk
from pliant.size_norms import SizeNorms, at_sparsity


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found.

    Args:
        scores: The scores with the best held-out loss `[units]`.
        rest: The rest values that go with them.
        norms: The corrections of norms that go with them; None where none were learned.
        loss: That loss: the mean over the ladder of hard masks.
        step: The step it was found at.
        losses: Training loss of every step.
    """

    scores: Tensor
    rest: tuple[Tensor, ...]
    norms: SizeNorms | None
    loss: float
    step: int
    losses: tuple[float, ...]


Watch = Callable[[int, float], None]
"""Called after every step with the number of steps done and the step's loss."""

_HeldOut = list[tuple[Batch, Target]]


class Search:
    """One run of the method; can stop after any step and go on from a snapshot."""

    def __init__(
        self,
        calibration: Calibration,
        settings: SoftMask,
        identity: str,
        saved: Snapshot | None = None,
        scores: Tensor | None = None,
    ) -> None:
        """Start from standardised log Fisher scores, or from where a snapshot was taken.

        Args:
            calibration: The model and what to rank it with.
            settings: How the search goes.
            identity: Describes the search in snapshots.
            saved: What to go on from.
            scores: What to start from in place of Fisher scores `[units]`.
        """
        self.calibration = calibration
        self.settings = settings
        self.identity = identity
        start = saved or self._start(scores)
        self.present = (start.best if start.step == settings.steps else start.present).copy()
        self.best = start.best
        self.best_loss, self.best_step = start.best_loss, start.best_step
        self.losses: list[float] = start.losses.tolist()
        self._knots = torch.tensor(settings.knots, dtype=torch.float64)
        self._begin_phase()
        # What was saved between the phases has moments of parameters that aren't learned any more.
        if start.step != settings.steps:
            self._restore_adam(start)

    def _start(self, scores: Tensor | None) -> Snapshot:
        calibration = self.calibration
        scores = standardised_log(fisher.scores(calibration)) if scores is None else scores
        shape = (len(self.settings.knots), len(calibration.anatomy.norms), 2, calibration.anatomy.sites[0].outputs)
        start = Solution(scores, calibration.rest, torch.zeros(shape, device=calibration.device))
        nothing = torch.zeros(0, dtype=torch.float64)
        return Snapshot(self.identity, calibration.rest, start, start, (), (), float("inf"), 0, nothing)

    @property
    def _settling(self) -> bool:
        """Whether the scores have been found, and only what compensates is learned."""
        return len(self.losses) >= self.settings.steps

    def _begin_phase(self) -> None:
        """Set up what is learned from here on: scores with rest values, or rest values with norms."""
        settings, present = self.settings, self.present
        spreads = [rest.std(correction=0).item() for rest in self.calibration.rest]
        rates = [(rest, settings.rest_rate * spread) for rest, spread in zip(present.rest, spreads, strict=True)]
        if not self._settling:
            rates = [(present.scores, settings.rate), *rates]
        elif any(spreads) and present.norms.numel():
            rates.append((present.norms, settings.norm_rate))
        self._rates = [(parameter.requires_grad_(), rate) for parameter, rate in rates if rate]
        groups = [{"params": [parameter], "lr": rate} for parameter, rate in self._rates]
        # Without groups there is nothing to do, which Adam refuses.
        self._adam = torch.optim.Adam(groups or [torch.zeros(1)], betas=(0.9, 0.95), eps=1e-12)

    def _restore_adam(self, start: Snapshot) -> None:
        moments = zip(self._rates, start.means, start.squares, strict=False)
        for (parameter, _), mean, square in moments:
            step = torch.tensor(float(start.step - (self.settings.steps if self._settling else 0)))
            self._adam.state[parameter] = {"step": step, "exp_avg": mean.clone(), "exp_avg_sq": square.clone()}

    def snapshot(self) -> Snapshot:
        """Return the present state."""
        states = [self._adam.state[parameter] for parameter, _ in self._rates if parameter in self._adam.state]
        return Snapshot(
            identity=self.identity,
            measured=self.calibration.rest,
            present=self.present.copy(),
            best=self.best,
            means=tuple(state["exp_avg"] for state in states),
            squares=tuple(state["exp_avg_sq"] for state in states),
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
        with calibration.gated(self.present.rest) as gates:
            held_out = [(batch, self._target(gates, batch)) for batch in self._held_out()]
            if not self.losses:
                self._judge(gates, held_out)
            while len(self.losses) < settings.all_steps and self._rates:
                loss = self._step(gates, to_device(next(batches), calibration.device))
                self.losses.append(loss)
                done = len(self.losses)
                if done % settings.judge_every == 0 or done in (settings.steps, settings.all_steps):
                    self._judge(gates, held_out)
                    if checkpoint is not None:
                        self.snapshot().save(checkpoint)
                if done == settings.steps < settings.all_steps:
                    self._settle(gates)
                if watch is not None:
                    watch(len(self.losses), loss)
        best = self.best
        return Found(best.scores, best.rest, self._size_norms(best), self.best_loss, self.best_step, tuple(self.losses))

    def _settle(self, gates: Gates) -> None:
        """Go on from the best that was found."""
        self.present = self.best.copy()
        gates.rest = self.present.rest
        self._begin_phase()

    def _size_norms(self, solution: Solution) -> SizeNorms | None:
        if not solution.norms.any():
            return None
        return SizeNorms(self._knots, (solution.norms * self._gains).cpu())

    @cached_property
    def _gains(self) -> Tensor:
        """What each norm's g and b are in units of: 1 and the mean size of its gain, `[norms, 2, 1]`."""
        model, norms = self.calibration.model, self.calibration.anatomy.norms
        weights = [model.get_submodule(norm.module).get_parameter("weight").float() + norm.offset for norm in norms]
        sizes = torch.stack([weight.abs().mean() for weight in weights])
        return torch.stack([torch.ones_like(sizes), sizes], dim=1).unsqueeze(-1)

    def _held_out(self) -> list[Batch]:
        return [to_device(batch, self.calibration.device) for batch in self.calibration.stream.held_out]

    def _target(self, gates: Gates, batch: Batch) -> Target:
        gates.masks = gates.norms = None
        with torch.no_grad():
            return self.calibration.objective.target(forward(self.calibration.model, batch), batch)

    def _loss(self, gates: Gates, masks: Tensor, sparsity: float, batch: Batch, target: Target) -> Tensor:
        gates.masks = masks
        if self.present.norms.requires_grad:
            gates.norms = at_sparsity(self._knots, self.present.norms, sparsity) * self._gains
        return self.calibration.objective.loss(forward(self.calibration.model, batch), target, batch)

    def _step(self, gates: Gates, batch: Batch) -> float:
        """Take one step of Adam on the mean loss of several sparsities; return that loss."""
        step = len(self.losses)
        target = self._target(gates, batch)
        total, scale = 0.0, self.calibration.loss_scale
        self._adam.zero_grad()
        for sparsity in self._drawn(step):
            loss = self._loss(gates, self._masks(sparsity, step), sparsity, batch, target) / self.settings.sparsities
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

    def _masks(self, sparsity: float, step: int) -> Tensor:
        """Return the masks of a step: soft ones, and hard ones in settling."""
        scores, costs = self.present.scores, self.calibration.costs
        if self._settling:
            return hard_topk(scores, costs, sparsity)
        return soft_topk(scores, costs, sparsity, self.settings.temperature(step))

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
            masks = hard_topk(self.present.scores.detach(), self.calibration.costs, sparsity)
            total += sum(self._loss(gates, masks, sparsity, batch, target).item() for batch, target in held_out)
        loss = total / (len(held_out) * len(self.settings.ladder))
        if loss < self.best_loss:
            self.best, self.best_loss, self.best_step = self.present.copy(), loss, len(self.losses)


def standardised_log(values: Tensor) -> Tensor:
    """Return log values with mean 0 and standard deviation 1, float32; zeros count as the smallest value there is."""
    positive = values[values > 0]
    floor = positive.min() if len(positive) else values.new_tensor(1.0)
    logs = values.clamp(min=floor).log()
    return ((logs - logs.mean()) / logs.std().clamp(min=1e-12)).float()
