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

_TENSORS = ("scores", "momentum", "variance", "best", "losses")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A search after some of its steps.

    Args:
        identity: What the search was asked to do; another search must not go on from here.
        step: Steps done.
        scores: The scores `[units]`.
        momentum: Adam's mean of gradients `[units]`.
        variance: Adam's mean of squared gradients `[units]`.
        best: The scores with the best held-out loss so far `[units]`.
        best_loss: That loss; infinite before the first judgement.
        best_step: The step it was found at.
        losses: Loss of each step so far `[step]`.
        rest: The rest values of each site.
    """

    identity: str
    step: int
    scores: Tensor
    momentum: Tensor
    variance: Tensor
    best: Tensor
    best_loss: float
    best_step: int
    losses: Tensor
    rest: tuple[Tensor, ...]

    def save(self, path: Path) -> None:
        """Write the snapshot; one that is there is replaced in one step."""
        tensors: dict[str, Tensor] = {name: getattr(self, name).contiguous() for name in _TENSORS}
        tensors |= {f"rest.{index}": rest.contiguous() for index, rest in enumerate(self.rest)}
        about = {"identity": self.identity, "step": self.step, "best_loss": self.best_loss, "best_step": self.best_step}
        with replacing(path) as temporary:
            save_file(tensors, temporary, metadata={"snapshot": json.dumps(about)})

    @classmethod
    def load(cls, path: Path, identity: str, device: torch.device) -> "Snapshot":
        """Read a snapshot of the search that `identity` describes.

        Raises:
            ArtefactError: The file is damaged, or belongs to another search.
        """
        try:
            with safe_open(path, framework="pt", device=str(device)) as file:
                about = json.loads((file.metadata() or {}).get("snapshot", "{}"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        except (SafetensorError, json.JSONDecodeError) as error:
            raise ArtefactError(f"{path} is damaged ({error}). Remove it and rank again from the start.") from error
        if about.get("identity") != identity:
            raise ArtefactError(
                f"{path} belongs to another search (another model, other data or other options). "
                "Resume with what it was started with, or remove it and rank from the start."
            )
        fixed = {name: tensors[name] for name in _TENSORS}
        rest = tuple(tensors[f"rest.{index}"] for index in range(len(tensors) - len(_TENSORS)))
        return cls(
            identity, about["step"], best_loss=about["best_loss"], best_step=about["best_step"], rest=rest, **fixed
        )
