"""Writes a benchmark's result with the machine, versions and commit that it was measured with."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from pliant.files import replacing
from pliant.machine import processor
from pliant.rankers.rank import PRESETS

RESULTS = Path(__file__).resolve().parent / "results"

MAPPED = " + output map"
"""Follows a run's name where its cuts have output maps."""


def wishes(run: str) -> dict[str, Any]:
    """Return what `pliant.rank` is asked for in a run: a ranker and, behind a comma, a preset or a compensation."""
    ranker, _, wish = run.removesuffix(MAPPED).partition(", ")
    asked = {} if not wish else {"preset": wish} if wish in PRESETS else {"compensation": wish}
    return {"ranker": ranker, **asked}


def order(runs: Iterable[str]) -> list[str]:
    """Return the names under which results are kept, in the order of the runs: with maps before without."""
    plain = dict.fromkeys(run.removesuffix(MAPPED) for run in runs)
    return [f"{run}{suffix}" for run in plain for suffix in (MAPPED, "")]


def commit() -> str:
    """Return the commit that this is run from, with `-dirty` behind it where files have changed since."""
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
        "commit": commit(),
    }
    path = RESULTS / f"{name}.json"
    with replacing(path) as temporary:
        temporary.write_text(json.dumps({"made_with": about, **result}, indent=1) + "\n", encoding="utf-8")
    return path
