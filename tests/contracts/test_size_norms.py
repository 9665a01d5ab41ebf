"""What size norms must prove: every form of a cut has them, at its own size, and the full model has none."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from contracts.elastics import assert_equal_outputs, masks_of, ranked
from contracts.models import SPECIMENS, by_name
from contracts.specimen import Specimen

from pliant.artefacts import load_cut, write_cut
from pliant.budget import Alignment
from pliant.checkpoint import Checkpoint
from pliant.elastic import Elastic, load
from pliant.families import describe
from pliant.gates import gated
from pliant.ranking import Ranking
from pliant.size_norms import SizeNorms

SPARSITIES = (0.1, 0.6)

specimens = pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda specimen: specimen.name)


@pytest.fixture(autouse=True)
def no_gradients() -> object:
    with torch.no_grad():
        yield


@cache
def with_norms(name: str) -> Ranking:
    """The specimen's ranking, with random corrections at two knots."""
    anatomy = describe(by_name(name).model())
    shape = (2, len(anatomy.norms), 2, anatomy.sites[0].outputs)
    values = 0.3 * torch.randn(shape, generator=torch.Generator().manual_seed(5))
    # A norm without a bias has no use for a b.
    for index, norm in enumerate(anatomy.norms):
        values[:, index, 1] *= norm.bias
    return replace(ranked(name), norms=SizeNorms(torch.tensor([0.3, 0.7], dtype=torch.float64), values))


def fresh_elastic(specimen: Specimen) -> Elastic:
    return Elastic(specimen.model(), with_norms(specimen.name), alignment=Alignment(neurons=8))


@specimens
def test_every_layer_has_norms(specimen: Specimen) -> None:
    anatomy = describe(specimen.model())
    for layer in anatomy.layers:
        assert any(norm.module.startswith(f"{layer}.") for norm in anatomy.norms)
    if anatomy.output is not None:
        assert anatomy.output.module in {norm.module for norm in anatomy.norms}


@specimens
def test_masked_and_corrected_is_view_is_cut(specimen: Specimen) -> None:
    model, batch = specimen.model(), specimen.batch(seed=7)
    whole, ranking, anatomy = fresh_elastic(specimen), with_norms(specimen.name), describe(model)
    assert ranking.norms is not None
    for sparsity in SPARSITIES:
        plan = whole.plan(sparsity=sparsity)
        with gated(model, anatomy, ranking.rest) as gates:
            gates.masks = masks_of(anatomy, ranking, plan)
            plain = specimen.call(model, batch)
            gates.norms = ranking.norms.at(whole.cost(plan).sparsity)
            expected = specimen.call(model, batch)
        assert_equal_outputs(specimen.call(whole.at(sparsity=sparsity), batch), expected)
        assert_equal_outputs(specimen.call(whole.cut(sparsity=sparsity), batch), expected)
        # Otherwise the equalities above would say nothing.
        assert (next(iter(plain.values())) - next(iter(expected.values()))).abs().max() > 1e-3


@specimens
def test_the_full_model_has_none(specimen: Specimen) -> None:
    original = specimen.call(specimen.model(), specimen.batch())
    whole = fresh_elastic(specimen)
    whole.at(sparsity=0.6)
    for model in (whole.at(sparsity=0), whole.cut(sparsity=0), whole.model):
        assert_equal_outputs(specimen.call(model, specimen.batch()), original)


@specimens
def test_saved_and_reloaded(specimen: Specimen, tmp_path: Path) -> None:
    whole, batch = fresh_elastic(specimen), specimen.batch(seed=3)
    expected = specimen.call(whole.at(sparsity=0.6), batch)
    if specimen.remembers_its_making:
        whole.save(tmp_path / "elastic")
        again = load(tmp_path / "elastic", alignment=Alignment(neurons=8))
        assert_equal_outputs(specimen.call(again.at(sparsity=0.6), batch), expected)
        assert_equal_outputs(specimen.call(again.model, batch), specimen.call(specimen.model(), batch))
    full = specimen.model()
    checkpoint = Checkpoint("tiny", tmp_path / "full", full, "text" if specimen.reads_text else "image", None, 40)
    specimen.save(full, tmp_path / "full")
    cut = fresh_elastic(specimen).cut(sparsity=0.6)
    write_cut(tmp_path / "cut", cut, whole.plan(sparsity=0.6).widths, checkpoint)
    assert_equal_outputs(specimen.call(load_cut(tmp_path / "cut"), batch), expected)
