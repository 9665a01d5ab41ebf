"""Random order: what any criterion must beat."""

import torch
from torch import Tensor

from pliant.rankers.calibration import Calibration


def scores(calibration: Calibration) -> Tensor:
    """Return uniform random scores, `[units]`."""
    generator = calibration.generator(salt=2)
    return torch.rand(calibration.anatomy.units, generator=generator, dtype=torch.float64).to(calibration.device)
