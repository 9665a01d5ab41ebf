"""A model is in memory once: while it is opened in any precision, taken over, and ranked."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's account of memory")

WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of a weight."""

Grown = tuple[dict[str, float], float, str]
"""MiB that each piece of work needs at its peak, the MiB of the weights, and their precision."""


def saved(directory: Path, width: int, layers: int, dtype: torch.dtype) -> Path:
    config = BertConfig(
        vocab_size=100,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=8,
        intermediate_size=4 * width,
        max_position_embeddings=32,
    )
    torch.manual_seed(0)
    BertModel._from_config(config, dtype=dtype).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def grown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Grown:
    """Measured on a model of 13 M parameters."""
    folder, dtype = tmp_path_factory.mktemp("memory"), getattr(torch, request.param)
    small, large = saved(folder / "small", 16, 1, dtype), saved(folder / "large", 512, 4, dtype)
    paths = os.pathsep.join(filter(None, sys.path))
    # What is freed goes back to the system at once, and so is seen when it is needed again.
    environment = {**os.environ, "PYTHONPATH": paths, "MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, str(Path(__file__).with_name("memory.py")), str(small), str(large)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout), (large / "model.safetensors").stat().st_size / 2**20, request.param


def test_converted_tensor_by_tensor(grown: Grown) -> None:
    found, parameters = grown[0], grown[1] / WIDTHS[grown[2]]
    for dtype in WIDTHS.keys() - {grown[2]}:
        assert 0.9 < found[f"open {dtype}"] / (WIDTHS[dtype] * parameters) < 1.3


def test_mapped_in_its_own_precision(grown: Grown) -> None:
    """It is the file itself until something is changed."""
    found, size, dtype = grown
    assert max(found["open auto"], found[f"open {dtype}"]) < 0.2 * size


def test_ranked_without_copies_of_the_weights(grown: Grown) -> None:
    """Nor are there gradients of them."""
    found, size, dtype = grown
    assert ("rank" in found) == (dtype == "float32")
    assert found.get("rank", 0.0) < 0.3 * size


def test_taken_over_in_place(grown: Grown) -> None:
    """What is reordered becomes private, tensor by tensor, and a view adds nothing."""
    found, size, _ = grown
    assert 0.5 * size < found["elastic"] < 1.3 * size
