"""The state of an unfinished search on disk, so that an interrupted one goes on as if nothing had happened."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pliant.errors import ArtefactError
from pliant.files import replacing
from pliant.ranking import checksum

_LISTS = ("measured", "means", "squares")


@dataclass(frozen=True, eq=False)
class Solution:
    """What a search looks for.

    Args:
        scores: The scores `[units]`.
        rest: The rest values of each site `[units × width]`.
        norms: g and b of each norm at each knot, b in units of the norm's gains, `[knots, norms, 2, width]`.
    """

    scores: Tensor
    rest: tuple[Tensor, ...]
    norms: Tensor

    def copy(self) -> "Solution":
        """Return the same values, apart from these and without a history."""
        return Solution(
            self.scores.detach().clone(),
            tuple(rest.detach().clone() for rest in self.rest),
            self.norms.detach().clone(),
        )

    def named(self, name: str) -> dict[str, Tensor]:
        """Return its tensors under names that begin with `name`."""
        rest = {f"{name}.rest.{index}": tensor for index, tensor in enumerate(self.rest)}
        return {f"{name}.scores": self.scores, f"{name}.norms": self.norms, **rest}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], name: str) -> "Solution":
        """Return what `named` named."""
        return cls(tensors[f"{name}.scores"], _numbered(tensors, f"{name}.rest"), tensors[f"{name}.norms"])


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A search after some of its steps.

    Args:
        identity: What the search was asked to do; another search must not go on from here.
        measured: The rest values of each site that the search started from.
        present: Where it is.
        best: What had the best held-out loss so far.
        means: Adam's mean of gradients, for each parameter that is learned; empty at the start.
        squares: Adam's mean of squared gradients, likewise.
        best_loss: That loss; infinite before the first judgement.
        best_step: The step it was found at.
        losses: Loss of each step so far `[step]`.
    """

    identity: str
    measured: tuple[Tensor, ...]
    present: Solution
    best: Solution
    means: tuple[Tensor, ...]
    squares: tuple[Tensor, ...]
    best_loss: float
    best_step: int
    losses: Tensor

    @property
    def step(self) -> int:
        """Steps done."""
        return len(self.losses)

    def save(self, path: Path) -> None:
        """Write the snapshot; one that is there is replaced in one step.

        Raises:
            InputError: The file can't be written.
        """
        tensors = {"losses": self.losses, **self.present.named("present"), **self.best.named("best")}
        for name in _LISTS:
            tensors |= {f"{name}.{index}": tensor for index, tensor in enumerate(getattr(self, name))}
        # Until something better is found, the best values are those at the start: safetensors wants them apart.
        tensors = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
        about = {"identity": self.identity, "best_loss": self.best_loss, "best_step": self.best_step}
        header = json.dumps(about)
        with replacing(path) as temporary:
            save_file(tensors, temporary, metadata={"snapshot": header, "sha256": checksum(header, tensors)})

    @classmethod
    def load(cls, path: Path, identity: str, device: torch.device) -> "Snapshot":
        """Read a snapshot of the search that `identity` describes.

        Raises:
            ArtefactError: The file is damaged, or belongs to another search.
        """
        try:
            with safe_open(path, framework="pt", device=str(device)) as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        except (SafetensorError, OSError) as error:
            raise ArtefactError(f"{path} is damaged ({error}). Remove it and rank again from the start.") from error
        header = metadata.get("snapshot", "")
        if metadata.get("sha256") != checksum(header, tensors):
            raise ArtefactError(f"{path} is altered or damaged. Remove it and rank again from the start.")
        about = json.loads(header)
        if about.get("identity") != identity:
            raise ArtefactError(
                f"{path} belongs to another search (another model, other data or other options). "
                "Resume with what it was started with, or remove it and rank from the start."
            )
        return cls(
            identity=identity,
            measured=_numbered(tensors, "measured"),
            present=Solution.of(tensors, "present"),
            best=Solution.of(tensors, "best"),
            means=_numbered(tensors, "means"),
            squares=_numbered(tensors, "squares"),
            best_loss=about["best_loss"],
            best_step=about["best_step"],
            losses=tensors["losses"],
        )


def _numbered(tensors: Mapping[str, Tensor], name: str) -> tuple[Tensor, ...]:
    """Return `name.0`, `name.1` and so on, as many as there are."""
    names = (f"{name}.{index}" for index in range(len(tensors)))
    return tuple(tensors[key] for key in names if key in tensors)
