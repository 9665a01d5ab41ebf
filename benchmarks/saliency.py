"""The saliency decoder that the demonstration's image encoder was fine-tuned with: a real use of its patch outputs."""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pliant.demo.onnx_weights import decoder

_CHANNELS = (384, 256, 128, 64)


class Saliency(nn.Module):
    """Three transposed convolutions, each doubling the grid, and one weight per channel.

    Args:
        file: The ONNX file that holds its weights.
    """

    def __init__(self, file: Path) -> None:
        super().__init__()
        for number, (inputs, outputs) in enumerate(pairwise(_CHANNELS), start=1):
            self.add_module(f"upconv{number}", nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1))
            self.add_module(f"bn{number}", nn.BatchNorm2d(outputs))
            self.add_module(f"relu{number}", nn.ReLU())
        self.final_conv = nn.Conv2d(_CHANNELS[-1], 1, 1)
        self.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in decoder(file).items()})
        self.eval()

    @torch.inference_mode()
    def forward(self, patches: Tensor, side: int) -> Tensor:
        """Return saliency maps from 0 to 1 `[batch, side, side]`.

        Args:
            patches: Outputs of the patches of a square grid, row by row, `[batch, patches, width]`.
            side: Height and width of the maps.
        """
        grid = round(patches.shape[1] ** 0.5)
        values = patches.transpose(1, 2).reshape(len(patches), -1, grid, grid)
        for module in self.children():
            values = module(values)
        return nn.functional.interpolate(values, size=(side, side), mode="bilinear").sigmoid()[:, 0]


class Overlap(NamedTuple):
    """Pixels that both of two sets of maps mark, and that either marks, `[batch]` each."""

    both: Tensor
    either: Tensor


def overlap(one: Tensor, other: Tensor, threshold: float = 0.5) -> Overlap:
    """Compare what two sets of maps `[batch, side, side]` mark, which is what reaches the threshold."""
    first, second = (maps.flatten(1) >= threshold for maps in (one, other))
    return Overlap((first & second).sum(dim=1), (first | second).sum(dim=1))
