"""What each supported model must prove: a cut is the masked model, in every form that it can take."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from contracts.elastics import (
    Origin,
    assert_equal_outputs,
    elastic,
    fresh_elastic,
    masked_outputs,
    ranked,
    rest_biases,
    tensors,
    unpacked,
)
from contracts.models import IMAGES, TEXT, by_name, specimens
from contracts.specimen import HEADS, Specimen, in_bfloat16

from pliant.artefacts import load_cut, write_cut
from pliant.budget import Cut
from pliant.checkpoint import Checkpoint
from pliant.elastic import Elastic, load
from pliant.families import describe
from pliant.ranking import Rest
from pliant.surgery import standalone

SPARSITIES = (0.1, 0.35, 0.6, 0.75)
ALIGNMENTS = (1, 8)

rests = pytest.mark.parametrize("rest", ["mean", "zero"])
alignments = pytest.mark.parametrize("neurons", ALIGNMENTS)


@pytest.fixture(autouse=True)
def no_gradients() -> object:
    with torch.no_grad():
        yield


@specimens
def test_family_and_sites(specimen: Specimen) -> None:
    anatomy = describe(specimen.model())
    assert anatomy.family == specimen.family
    assert [site.kind for site in anatomy.sites] == [*specimen.kinds] * 2
    assert [site.layer for site in anatomy.sites] == [layer for layer in (0, 1) for _ in specimen.kinds]
    assert len({site.name for site in anatomy.sites}) == 2 * len(specimen.kinds)
    units, width = specimen.groups, specimen.head_dim * HEADS // specimen.groups
    assert all((site.units, site.width) == (units, width) for site in anatomy.sites if site.kind == "heads")


@pytest.mark.parametrize(("name", "notes"), [("bert", 0), ("nomic-bert", 0), ("qwen3", 1), ("embedding-gemma", 1)])
def test_only_decoders_warn_of_their_cache(name: str, notes: int) -> None:
    found = describe(by_name(name).model()).notes
    assert [note.startswith("Give texts whole:") for note in found] == [True] * notes


@specimens
@rests
@alignments
def test_the_full_budget_is_the_original(specimen: Specimen, rest: Rest, neurons: int) -> None:
    original = specimen.call(specimen.model(), specimen.batch())
    whole = elastic(specimen.name, rest, neurons)
    assert_equal_outputs(specimen.call(whole.at(sparsity=0), specimen.batch()), original)
    assert_equal_outputs(specimen.call(whole.cut(sparsity=0), specimen.batch()), original)
    assert_equal_outputs(specimen.call(whole.model, specimen.batch()), original)


@specimens
@rests
@alignments
def test_masked_is_view_is_cut(specimen: Specimen, rest: Rest, neurons: int) -> None:
    model, batch = specimen.model(), specimen.batch(seed=7)
    whole, ranking = elastic(specimen.name, rest, neurons), ranked(specimen.name, rest)
    outputs = []
    for sparsity in SPARSITIES:
        masked = masked_outputs(specimen, model, ranking, whole.plan(sparsity=sparsity), batch)
        assert_equal_outputs(specimen.call(whole.at(sparsity=sparsity), batch), masked)
        assert_equal_outputs(specimen.call(whole.cut(sparsity=sparsity), batch), masked)
        outputs.append(next(iter(masked.values())))
    # Otherwise the equalities above would say nothing.
    assert all((one - other).abs().max() > 1e-3 for one, other in pairwise(outputs))


@specimens
def test_the_kind_of_rest_matters(specimen: Specimen) -> None:
    batch = specimen.batch()
    mean, zero = (specimen.call(elastic(specimen.name, rest).at(sparsity=0.5), batch) for rest in ("mean", "zero"))
    assert (next(iter(mean.values())) - next(iter(zero.values()))).abs().max() > 1e-3


@specimens
@rests
def test_saved_and_reloaded(specimen: Specimen, rest: Rest, tmp_path: Path) -> None:
    if not specimen.remembers_its_making:
        pytest.skip("nothing records how the model was made")
    whole, batch = fresh_elastic(specimen, rest), specimen.batch()
    before = [specimen.call(whole.at(sparsity=sparsity), batch) for sparsity in SPARSITIES]
    whole.save(tmp_path / "elastic")
    again = load(tmp_path / "elastic")
    for sparsity, expected in zip(SPARSITIES, before, strict=True):
        assert_equal_outputs(specimen.call(again.at(sparsity=sparsity), batch), expected)
        assert_equal_outputs(specimen.call(whole.at(sparsity=sparsity), batch), expected, tolerance=0)
    stock = specimen.load(tmp_path / "elastic")
    assert_equal_outputs(specimen.call(stock, batch), specimen.call(specimen.model(), batch))


@specimens
@alignments
def test_a_cut_saved_and_reloaded(specimen: Specimen, neurons: int, tmp_path: Path) -> None:
    whole, batch = elastic(specimen.name, "mean", neurons), specimen.batch()
    full = specimen.model()
    specimen.save(full, tmp_path / "full")
    inputs = "text" if specimen.reads_text else "image"
    checkpoint = Checkpoint("tiny", tmp_path / "full", full, inputs, None, 40)
    # As a loaded one is: torch multiplies in another order where a weight requires a gradient.
    cut = whole.cut(sparsity=0.6).requires_grad_(False)
    write_cut(tmp_path / "cut", cut, whole.plan(sparsity=0.6).widths, checkpoint)
    again = load_cut(tmp_path / "cut")
    # Where weights lie in memory can change the order of a sum.
    assert_equal_outputs(specimen.call(again, batch), specimen.call(cut, batch), tolerance=1e-6)
    assert all(torch.equal(mine, its) for mine, its in zip(again.parameters(), cut.parameters(), strict=True))


@specimens
@alignments
def test_cuts_are_nested(specimen: Specimen, neurons: int) -> None:
    whole = elastic(specimen.name, "mean", neurons)
    cuts = [whole.plan(sparsity=step / 100) for step in range(0, 76, 3)]
    assert all(smaller.is_inside(larger) for larger, smaller in pairwise(cuts))
    assert cuts[0] != cuts[-1]
    for larger, smaller in ((cuts[0], cuts[9]), (cuts[9], cuts[-1])):
        big, small = (unpacked(standalone(whole.view(cut)), whole.anatomy) for cut in (larger, smaller))
        for where in small.keys() - {Origin(bias, 0) for bias in rest_biases(whole.anatomy)}:
            kept = tuple(slice(0, length) for length in small[where].shape)
            assert torch.equal(big[where][kept], small[where]), where


@specimens
@rests
def test_an_emptied_site_is_its_constant(specimen: Specimen, rest: Rest) -> None:
    model, batch = specimen.model(), specimen.batch(seed=3)
    whole, ranking, anatomy = elastic(specimen.name, rest, 8), ranked(specimen.name, rest), describe(model)
    units = [site.units for site in anatomy.sites]
    for emptied in (site for site in anatomy.sites if site.sublayer):
        cut = Cut(tuple(0 if site is emptied else width for site, width in zip(anatomy.sites, units, strict=True)))
        masked = masked_outputs(specimen, model, ranking, cut, batch)
        view = whole.view(cut)
        assert_equal_outputs(specimen.call(view, batch), masked)
        assert sum(parameter.numel() for parameter in view.parameters()) == whole.cost(cut).parameters
        assert_equal_outputs(specimen.call(standalone(view), batch), masked)


@pytest.mark.parametrize("specimen", IMAGES, ids=lambda specimen: specimen.name)
def test_images_of_every_size(specimen: Specimen) -> None:
    model, whole, ranking = specimen.model(), elastic(specimen.name), ranked(specimen.name)
    for size in specimen.sizes:
        for count in (1, 2):
            batch = specimen.images(size, count=count)
            masked = masked_outputs(specimen, model, ranking, whole.plan(sparsity=0.5), batch)
            assert_equal_outputs(specimen.call(whole.at(sparsity=0.5), batch), masked)


@pytest.mark.parametrize("specimen", TEXT, ids=lambda specimen: specimen.name)
@pytest.mark.parametrize("length", [1, 2, 13, 38])
def test_texts_of_every_length(specimen: Specimen, length: int) -> None:
    model, whole, ranking = specimen.model(), elastic(specimen.name), ranked(specimen.name)
    generator = torch.Generator().manual_seed(length)
    text = torch.randint(2, 60, (length,), generator=generator)
    batch = specimen.padded([text])
    masked = masked_outputs(specimen, model, ranking, whole.plan(sparsity=0.5), batch)
    assert_equal_outputs(specimen.call(whole.at(sparsity=0.5), batch), masked)
    assert_equal_outputs(specimen.call(whole.cut(sparsity=0.5), batch), masked)


@specimens
def test_bfloat16(specimen: Specimen) -> None:
    """Within 0.1 where outputs are about one: bfloat16 keeps 8 bits, through two layers, summed in another order."""
    ranking = ranked(specimen.name)
    batch = in_bfloat16(specimen.batch())
    whole = Elastic(specimen.model().bfloat16(), ranking)
    expected = specimen.call(elastic(specimen.name).at(sparsity=0.5), specimen.batch())
    for model in (whole.at(sparsity=0.5), whole.cut(sparsity=0.5)):
        outputs = tensors(specimen.call(model, batch))
        assert all(parameter.dtype == torch.bfloat16 for parameter in model.parameters())
        assert all(value.dtype == torch.bfloat16 for value in outputs.values())
        assert_equal_outputs({name: value.float() for name, value in outputs.items()}, tensors(expected), tolerance=0.1)
