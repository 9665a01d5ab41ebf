"""Writes a benchmark's result with the machine, versions and commit that it was measured with."""

import json
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from pliant.files import replacing
from pliant.speed.machine import processor

RESULTS = Path(__file__).resolve().parent / "results"


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(command, capture_output=True, text=True, cwd=RESULTS.parent, check=False).stdout.strip()


def save(name: str, result: dict[str, Any]) -> Path:
    about = {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "commit": _commit(),
    }
    path = RESULTS / f"{name}.json"
    with replacing(path) as temporary:
        temporary.write_text(json.dumps({"made_with": about, **result}, indent=1) + "\n", encoding="utf-8")
    return path
