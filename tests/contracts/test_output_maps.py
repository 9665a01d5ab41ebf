"""What an output map must prove: it follows every cut, in every form, costs what is said, and spares the full model."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from contracts.elastics import assert_equal_outputs, masks_of, ranked, tensors
from contracts.models import SPECIMENS, by_name
from contracts.specimen import Side, Specimen, in_bfloat16, sentences
from contracts.test_costs import macs, parameters
from torch import Tensor, nn

from pliant.artefacts import load_cut, write_cut
from pliant.budget import Alignment, Budget, Planner
from pliant.checkpoint import Checkpoint
from pliant.compensation import fit_output_maps
from pliant.elastic import Elastic, load
from pliant.families import describe
from pliant.gates import gated
from pliant.output_maps import OutputMap, OutputMaps
from pliant.ranking import Ranking

SPARSITIES = (0.1, 0.35, 0.6, 0.75)

POOL_BY_THEMSELVES = ("beit", "clip", "siglip")
"""Families whose embedding isn't pooled from token outputs one by one."""

NORM_WHAT_THEY_POOLED = ("timm-post-norm", "timm-eva02", "timm-whole-mlps")


def has_a_place(specimen: Specimen) -> bool:
    return specimen.family not in POOL_BY_THEMSELVES and specimen.name not in NORM_WHAT_THEY_POOLED


MAPPED = [specimen for specimen in SPECIMENS if has_a_place(specimen)]

specimens = pytest.mark.parametrize("specimen", MAPPED, ids=lambda specimen: specimen.name)


@pytest.fixture(autouse=True)
def no_gradients() -> object:
    with torch.no_grad():
        yield


def with_maps(specimen: Specimen) -> Ranking:
    """The specimen's ranking, and random maps of about the outputs' own size for the cuts at some sparsities."""
    ranking, anatomy = ranked(specimen.name), describe(specimen.model())
    assert anatomy.output is not None
    planner = Planner(anatomy, ranking, Alignment(neurons=8))
    widths = {planner.plan(Budget("sparsity", sparsity)).widths for sparsity in SPARSITIES}
    width, generator = anatomy.output.width, torch.Generator().manual_seed(3)
    weights = torch.randn(len(widths), width, width, generator=generator) / width**0.5
    biases = torch.randn(len(widths), width, generator=generator)
    maps = OutputMaps(torch.tensor(sorted(widths)), weights, biases, torch.tensor([8, 1]))
    return replace(ranking, output_maps=maps)


def elastic(specimen: Specimen) -> Elastic:
    """One Elastic for many tests, which must leave it as it is."""
    return _elastic(specimen.name)


@cache
def _elastic(name: str) -> Elastic:
    return fresh_elastic(by_name(name))


def fresh_elastic(specimen: Specimen) -> Elastic:
    return Elastic(specimen.model(), with_maps(specimen), alignment=Alignment(neurons=8))


@contextmanager
def followed(norm: nn.Module, found: OutputMap) -> Iterator[None]:
    """Let a hook do what the map should, while the block runs."""

    def after(_module: nn.Module, _inputs: Any, outputs: Tensor) -> Tensor:
        return outputs + outputs @ found.weight.T + found.bias

    handle = norm.register_forward_hook(after)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda specimen: specimen.name)
def test_the_norm_that_token_outputs_come_from(specimen: Specimen) -> None:
    model, batch = specimen.model(), specimen.batch()
    output = describe(model).output
    assert (output is not None) == has_a_place(specimen)
    if output is None:
        return
    seen: list[Tensor] = []
    model.get_submodule(output.module).register_forward_hook(lambda _module, _inputs, outputs: seen.append(outputs))
    outputs = specimen.call(model, batch)
    tokens = outputs.get("last_hidden_state", outputs.get("features"))
    assert seen and seen[0].shape[-1] == output.width
    if tokens is not None and tokens.dim() == 3:
        torch.testing.assert_close(seen[0], tokens, atol=0, rtol=0)


@specimens
def test_masked_and_mapped_is_view_is_cut(specimen: Specimen) -> None:
    model, batch = specimen.model(), specimen.batch(seed=7)
    whole, ranking, anatomy = elastic(specimen), with_maps(specimen), describe(model)
    assert anatomy.output is not None and ranking.output_maps is not None
    norm = model.get_submodule(anatomy.output.module)
    for sparsity in SPARSITIES:
        plan = whole.plan(sparsity=sparsity)
        found = ranking.output_maps.of(plan.widths)
        assert found is not None
        with gated(model, anatomy, ranking.rest) as gates:
            gates.masks = masks_of(anatomy, ranking, plan)
            plain = specimen.call(model, batch)
            with followed(norm, found):
                expected = specimen.call(model, batch)
        assert_equal_outputs(specimen.call(whole.at(sparsity=sparsity), batch), expected)
        assert_equal_outputs(specimen.call(whole.cut(sparsity=sparsity), batch), expected)
        # Otherwise the equalities above would say nothing.
        assert (next(iter(plain.values())) - next(iter(expected.values()))).abs().max() > 1e-3


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("specimen", [one for one in MAPPED if one.reads_text], ids=lambda specimen: specimen.name)
def test_maps_of_tokens_know_nothing_of_padding(
    specimen: Specimen, side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same texts one by one and together, with more padding than they need: the same maps."""
    # Whether a map helps is no question here.
    monkeypatch.setattr("pliant.compensation._Sums.gain", lambda sums, solution: 1.0)
    texts = [sentences((7, 5, 2), seed, first=specimen.padding_word + 1) for seed in range(4)]
    alone = [specimen.padded([text]) for batch in texts for text in batch]
    together = [specimen.padded(batch, length=11, side=side) for batch in texts]
    found = []
    # A quarter of the batches is held out, the same texts both times.
    for batches in (alone, together):
        whole = Elastic(specimen.model(), ranked(specimen.name), alignment=Alignment(neurons=8))
        fit_output_maps(whole, batches, sparsities=(0.6,), pooling="tokens")
        found.append(mapped(whole))
    for name in ("weights", "biases"):
        torch.testing.assert_close(getattr(found[0], name), getattr(found[1], name), atol=1e-4, rtol=1e-3)
    assert found[0].weights.abs().max() > 0.05


@specimens
def test_the_full_model_has_no_map(specimen: Specimen) -> None:
    original = specimen.call(specimen.model(), specimen.batch())
    whole = elastic(specimen)
    for model in (whole.at(sparsity=0), whole.cut(sparsity=0), whole.model):
        assert_equal_outputs(specimen.call(model, specimen.batch()), original)
        assert parameters(model) == whole.anatomy.total_parameters


@specimens
def test_costs_count_the_map(specimen: Specimen) -> None:
    whole, batch = elastic(specimen), specimen.batch(count=1)
    width = with_maps(specimen).output_maps.width  # pyright: ignore[reportOptionalMemberAccess]
    half = whole.plan(sparsity=0.6)
    without = Elastic(specimen.model(), ranked(specimen.name), alignment=Alignment(neurons=8))
    tokens = specimen.tokens(whole.model, batch) if not specimen.reads_text else batch["input_ids"].shape[1]
    cost, plain = whole.cost(half, tokens), without.cost(half, tokens)
    assert cost.parameters == plain.parameters + width * (width + 1)
    assert parameters(whole.view(half)) == parameters(whole.cut(sparsity=0.6)) == cost.parameters
    assert cost.macs == plain.macs + tokens * width**2
    assert macs(whole.view(half), batch) - macs(without.view(half), batch) == tokens * width**2


@specimens
def test_budgets_hold_with_the_map(specimen: Specimen) -> None:
    whole = elastic(specimen)
    full = whole.anatomy.total_parameters
    for share in (0.85, 0.99, 1):
        assert whole.cost(whole.plan(params=share * full)).parameters <= share * full
        assert whole.cost(whole.plan(macs=share * whole.anatomy.macs())).macs <= share * whole.anatomy.macs()
    assert whole.cost(whole.plan(params=full)).parameters == full


@specimens
def test_saved_and_reloaded(specimen: Specimen, tmp_path: Path) -> None:
    whole, batch = fresh_elastic(specimen), specimen.batch()
    expected = specimen.call(whole.at(sparsity=0.6), batch)
    if specimen.remembers_its_making:
        whole.save(tmp_path / "elastic")
        assert_equal_outputs(specimen.call(load(tmp_path / "elastic").at(sparsity=0.6), batch), expected)
    full = specimen.model()
    specimen.save(full, tmp_path / "full")
    checkpoint = Checkpoint("tiny", tmp_path / "full", full, "text" if specimen.reads_text else "image", None, 40)
    cut = whole.cut(sparsity=0.6).requires_grad_(False)
    write_cut(tmp_path / "cut", cut, whole.plan(sparsity=0.6).widths, checkpoint)
    assert_equal_outputs(specimen.call(load_cut(tmp_path / "cut"), batch), expected)


@specimens
def test_bfloat16(specimen: Specimen) -> None:
    """Within 0.2 where mapped outputs are about two; see the families' own test."""
    batch = in_bfloat16(specimen.batch())
    whole = Elastic(specimen.model().bfloat16(), with_maps(specimen))
    expected = specimen.call(elastic(specimen).at(sparsity=0.6), specimen.batch())
    for model in (whole.at(sparsity=0.6), whole.cut(sparsity=0.6)):
        outputs = tensors(specimen.call(model, batch))
        assert all(parameter.dtype == torch.bfloat16 for parameter in model.parameters())
        assert_equal_outputs({name: value.float() for name, value in outputs.items()}, tensors(expected), tolerance=0.2)


@specimens
def test_cuts_without_a_map_are_what_they_were(specimen: Specimen) -> None:
    batch, whole = specimen.batch(), elastic(specimen)
    without = Elastic(specimen.model(), ranked(specimen.name), alignment=Alignment(neurons=8))
    # Cuts that are not among those of the maps.
    others = [
        cut for cut in (whole.plan(sparsity=step / 20) for step in range(1, 15)) if cut.widths not in mapped(whole)
    ]
    for cut in others[:3]:
        assert_equal_outputs(specimen.call(whole.view(cut), batch), specimen.call(without.view(cut), batch))
        assert whole.cost(cut) == without.cost(cut)
    assert others


def mapped(whole: Elastic) -> OutputMaps:
    assert whole.ranking.output_maps is not None
    return whole.ranking.output_maps


def test_views_share_the_weights_of_their_map() -> None:
    whole = fresh_elastic(SPECIMENS[0])
    assert whole.anatomy.output is not None
    before = whole.at(sparsity=0.6).get_submodule(whole.anatomy.output.module).get_parameter("map.weight").data_ptr()
    whole._views.clear()
    assert before == whole.at(sparsity=0.6).get_submodule(whole.anatomy.output.module).map.weight.data_ptr()  # pyright: ignore


def test_the_alignment_of_the_maps_is_taken_over() -> None:
    """Otherwise a device of another kind would have other cuts, and no maps."""
    ranking = with_maps(SPECIMENS[0])
    maps = replace(ranking.output_maps, alignment=torch.tensor([4, 2]))  # pyright: ignore[reportArgumentType]
    assert Elastic(SPECIMENS[0].model(), replace(ranking, output_maps=maps)).alignment == Alignment(4, 2)
    own = Elastic(SPECIMENS[0].model(), ranking, alignment=Alignment(neurons=16))
    assert own.alignment == Alignment(neurons=16)


def test_maps_can_be_taken_away() -> None:
    whole, batch = fresh_elastic(SPECIMENS[0]), SPECIMENS[0].batch()
    cost, view = whole.cost(whole.plan(sparsity=0.6)), whole.at(sparsity=0.6)
    with_map = view(**batch).last_hidden_state
    whole.use_output_maps_(None)
    assert whole.cost(whole.plan(sparsity=0.6)).parameters < cost.parameters
    assert (whole.at(sparsity=0.6)(**batch).last_hidden_state - with_map).abs().max() > 1e-3
    assert torch.equal(view(**batch).last_hidden_state, with_map)
