"""What the set-up of the tests adds on a machine without a GPU: torchvision beside a CPU build of torch."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(find_spec("torchvision") is None, reason="torchvision isn't installed")

HOOK = Path(__file__).parent / "environment" / "torchvision_without_gpu.py"


def run(code: str) -> str:
    """Run code in a new Python that has the hook, whether or not the environment has it already."""
    given = f"import sys; sys.path.insert(0, {str(HOOK.parent)!r}); import torchvision_without_gpu; {code}"
    done = subprocess.run([sys.executable, "-W", "error", "-c", given], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_torchvision_can_be_imported() -> None:
    assert run("import torchvision.transforms; print(torchvision.__name__)") == "torchvision"


def test_looking_for_it_imports_nothing() -> None:
    code = "from importlib.util import find_spec; print(bool(find_spec('torchvision')), 'torch' in sys.modules)"
    assert run(code) == "True False"


def test_any_other_error_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('something else')", encoding="utf-8")
    code = f"""
sys.path.insert(0, {str(tmp_path)!r})
try:
    import torchvision
except RuntimeError as error:
    print(error, "torchvision" in sys.modules)
"""
    assert run(f"exec({code!r})") == "something else False"
