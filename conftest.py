"""Keeps every test offline, and makes tests of the Python examples in README.md and docs/."""

import os
import tempfile
from pathlib import Path
from typing import Any

# Before transformers is imported anywhere: the hub's client reads these once.
os.environ.update(
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    HF_HUB_DISABLE_TELEMETRY="1",
    HF_HUB_DISABLE_PROGRESS_BARS="1",
    TOKENIZERS_PARALLELISM="false",
)

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser


def _enter_scratch_folder(namespace: dict[str, Any]) -> None:
    namespace["_home"] = Path.cwd()
    namespace["_scratch"] = tempfile.TemporaryDirectory()
    os.chdir(namespace["_scratch"].name)


def _leave_scratch_folder(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_home"])
    namespace["_scratch"].cleanup()


# The examples of one document share their names and a folder of their own, in which they may save files.
pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "docs/*.md"],
    setup=_enter_scratch_folder,
    teardown=_leave_scratch_folder,
).pytest()
