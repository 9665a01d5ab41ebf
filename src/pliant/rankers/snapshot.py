"""The state of an unfinished search on disk, so that an interrupted one goes on as if nothing had happened."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pliant.errors import ArtefactError
from pliant.files import replacing
from pliant.ranking import checksum

_FIXED = ("scores", "best", "losses")
_FOR_EACH_SITE = ("measured", "rest", "best_rest")
_FOR_EACH_PARAMETER = ("means", "squares")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A search after some of its steps.

    Args:
        identity: What the search was asked to do; another search must not go on from here.
        scores: The scores `[units]`.
        measured: The rest values of each site that the search started from.
        rest: The present ones.
        means: Adam's mean of gradients, for the scores and then for each site's rest values; empty at the start.
        squares: Adam's mean of squared gradients, likewise.
        best: The scores with the best held-out loss so far `[units]`.
        best_rest: The rest values that go with them.
        best_loss: That loss; infinite before the first judgement.
        best_step: The step it was found at.
        losses: Loss of each step so far `[step]`.
    """

    identity: str
    scores: Tensor
    measured: tuple[Tensor, ...]
    rest: tuple[Tensor, ...]
    means: tuple[Tensor, ...]
    squares: tuple[Tensor, ...]
    best: Tensor
    best_rest: tuple[Tensor, ...]
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
        tensors: dict[str, Tensor] = {name: getattr(self, name) for name in _FIXED}
        for name in (*_FOR_EACH_SITE, *_FOR_EACH_PARAMETER):
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

        def numbered(name: str) -> tuple[Tensor, ...]:
            return tuple(tensors[key] for key in (f"{name}.{index}" for index in range(len(tensors))) if key in tensors)

        return cls(
            identity=identity,
            scores=tensors["scores"],
            measured=numbered("measured"),
            rest=numbered("rest"),
            means=numbered("means"),
            squares=numbered("squares"),
            best=tensors["best"],
            best_rest=numbered("best_rest"),
            best_loss=about["best_loss"],
            best_step=about["best_step"],
            losses=tensors["losses"],
        )
