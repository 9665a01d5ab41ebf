"""The machine that something was measured on."""

import platform
from pathlib import Path

import torch
from torch import nn

from pliant.batches import device_of, precision_of

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


def described(model: nn.Module) -> str:
    """Say in a few words what a model runs on: the device, of a CPU its threads, and the model's precision."""
    device = device_of(model)
    return description(device_name(device), device.type, torch.get_num_threads(), precision_of(model))


def description(name: str, kind: str, threads: int, precision: str) -> str:
    """Say the same of a machine that was measured before.

    Example:
        >>> description("A Processor", "cpu", 2, "float32")
        'A Processor (cpu, 2 threads), float32'
    """
    cores = f", {threads} thread{'s' if threads > 1 else ''}" if kind == "cpu" else ""
    return f"{name} ({kind}{cores}), {precision}"
