"""A view and a cut compute compiled, and exported, what they compute as they are."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from contracts.elastics import assert_equal_outputs, elastic, tensors
from contracts.models import by_name
from torch import nn

from pliant.batches import Batch, forward
from pliant.budget import Cut
from pliant.elastic import Elastic

NAMES = ("bert", "vit", "dinov3", "qwen3", "timm-vit")
DECODERS = ("qwen3",)
"""They are exported without the cache of keys and values that they return, which torch.export doesn't know."""


def emptied(whole: Elastic) -> nn.Module:
    """A view of which each first site that may be emptied keeps nothing."""
    first = {site.kind: site for site in reversed(whole.anatomy.sites) if site.sublayer}
    return whole.view(Cut(tuple(0 if site is first.get(site.kind) else site.units for site in whole.anatomy.sites)))


FORMS: dict[str, Callable[[Elastic], Any]] = {
    "view": lambda whole: whole.at(sparsity=0.6),
    "cut": lambda whole: whole.cut(sparsity=0.6),
    "emptied": emptied,
}


def found(model: Any, batch: Batch) -> dict[str, torch.Tensor]:
    """Every tensor that a model returns."""
    outputs = forward(model, batch)
    return {"outputs": outputs} if isinstance(outputs, torch.Tensor) else tensors(outputs)


names = pytest.mark.parametrize("name", NAMES)
forms = pytest.mark.parametrize("form", FORMS)


@pytest.fixture(autouse=True)
def nothing_compiled_before() -> Iterator[None]:
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


@names
@forms
def test_compiled(name: str, form: str) -> None:
    model, specimen = FORMS[form](elastic(name)), by_name(name)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert_equal_outputs(found(compiled, specimen.batch()), found(model, specimen.batch()))


@names
@forms
def test_exported(name: str, form: str) -> None:
    model, specimen = FORMS[form](elastic(name)), by_name(name)
    batch, other = specimen.batch(), specimen.batch(seed=5)
    if name in DECODERS:
        batch, other = ({**inputs, "use_cache": False} for inputs in (batch, other))
    inputs: Any = ((batch,), {}) if isinstance(batch, torch.Tensor) else ((), batch)
    exported: Any = torch.export.export(model, *inputs, strict=False).module()
    assert_equal_outputs(found(exported, other), found(model, other))


@pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++"))), reason="inductor needs a C++ compiler")
# Inductor itself still imports what torch has deprecated.
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_compiled_to_machine_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    model, specimen = elastic("bert").at(sparsity=0.6), by_name("bert")
    with config.patch(compile_threads=1):
        compiled = torch.compile(model, fullgraph=True)
        assert_equal_outputs(compiled(**specimen.batch()), model(**specimen.batch()))
