"""The machine that something was measured on."""

import platform
from pathlib import Path

import torch

_PROCESSORS = Path("/proc/cpuinfo")


def processor() -> str:
    """Return the processor's name as the system gives it, or its kind where there is none."""
    lines = _PROCESSORS.read_text(encoding="utf-8").splitlines() if _PROCESSORS.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def device_name(device: torch.device) -> str:
    """Return what a device is called: a GPU's own name, or the processor's."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor()


def synchronize(device: torch.device) -> None:
    """Wait until all that was given to a device is done; a CPU does it at once."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
