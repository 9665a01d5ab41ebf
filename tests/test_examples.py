"""Every example runs to its end, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.stem for example in EXAMPLES])
def test_an_example_runs(example: Path) -> None:
    ran = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "sparsity 0.0: " in ran.stdout


def test_there_are_examples() -> None:
    assert EXAMPLES
