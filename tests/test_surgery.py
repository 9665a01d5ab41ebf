import copy
import pickle

import torch
from contracts.elastics import origin
from contracts.models import SPECIMENS, by_name, specimens
from contracts.specimen import Specimen, output_of
from torch import Tensor

from pliant.families import describe
from pliant.surgery import entries, picked_heads, reorder_, reordered, slots, standalone, view


def random_orders(specimen: Specimen) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randperm(site.units, generator=generator) for site in describe(specimen.model()).sites]


def test_entries_by_hand() -> None:
    assert entries(torch.tensor([2, 0]), 3).tolist() == [6, 7, 8, 0, 1, 2]
    assert entries(torch.tensor([1, 0, 2]), 1).tolist() == [1, 0, 2]


@specimens
def test_slots_hold_the_parameters_of_all_units(specimen: Specimen) -> None:
    model = specimen.model()
    for site in describe(model).sites:
        found = list(slots(site))
        assert sum(model.get_parameter(slot.name).numel() for slot in found) == site.units * site.unit_parameters
        for slot in found:
            assert model.get_parameter(slot.name).shape[slot.axis] == site.units * slot.per_unit * slot.parts


@specimens
@torch.no_grad()
def test_a_reordered_model_computes_what_it_did(specimen: Specimen) -> None:
    model, orders = specimen.model(), random_orders(specimen)
    before = output_of(specimen.call(model, specimen.batch()))
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    reorder_(model, describe(model), orders)
    assert any(not torch.equal(tensor, model.state_dict()[name]) for name, tensor in weights.items())
    assert model.state_dict().keys() == weights.keys() | picked_heads(describe(model))
    torch.testing.assert_close(output_of(specimen.call(model, specimen.batch())), before, atol=1e-5, rtol=0)
    reorder_(model, describe(model), [torch.argsort(order) for order in orders])
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in weights.items())


@specimens
def test_reordered_copies(specimen: Specimen) -> None:
    model = specimen.model()
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for _, tensor in reordered(model, describe(model), random_orders(specimen)):
        tensor.zero_()
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())


@specimens
@torch.no_grad()
def test_a_view_of_all_widths_at_once(specimen: Specimen) -> None:
    """Every site at another width, down to one unit."""
    model = specimen.model()
    anatomy = describe(model)
    biases = [torch.full((site.outputs,), 0.1) for site in anatomy.sites]
    widths = tuple((1, site.units, max(1, site.units - 1), 1)[index] for index, site in enumerate(anatomy.sites))
    small = view(model, anatomy, widths, biases)
    assert torch.isfinite(output_of(specimen.call(small, specimen.batch()))).all()
    assert type(small) is type(model)
    own = standalone(small)
    narrowed = [site for site, width in zip(anatomy.sites, widths, strict=True) if width < site.units]
    gained = {f"{site.consumer}.bias" for site in narrowed} | picked_heads(anatomy)
    assert {origin(name, anatomy).name for name in own.state_dict()} == model.state_dict().keys() | gained
    torch.testing.assert_close(
        output_of(specimen.call(own, specimen.batch())),
        output_of(specimen.call(small, specimen.batch())),
        atol=1e-5,
        rtol=0,
    )
    for parameter in own.parameters():
        parameter.zero_()
    assert all(bool(parameter.any()) for parameter in model.parameters())


def test_modules_outside_the_sites_are_the_same_objects() -> None:
    model = SPECIMENS[0].model()
    anatomy = describe(model)
    biases = [model.get_parameter(f"{site.consumer}.bias") for site in anatomy.sites]
    small = view(model, anatomy, (1, 1, 1, 1), biases)
    for path in ("embeddings", "pooler", "encoder.layer.0.output.LayerNorm"):
        assert small.get_submodule(path) is model.get_submodule(path)
    for path in ("", "encoder", "encoder.layer.0", "encoder.layer.0.output.dense"):
        assert small.get_submodule(path) is not model.get_submodule(path)


@torch.no_grad()
def test_heads_of_a_shared_bias_stay_themselves() -> None:
    """Whatever order the heads come in, and in whatever copy."""
    specimen = by_name("mpnet")
    model, orders = specimen.model(), random_orders(specimen)
    anatomy = describe(model)
    before = output_of(model(**specimen.batch()))
    for _ in range(2):
        reorder_(model, describe(model), orders)
        assert all(model.get_buffer(name).tolist() != list(range(4)) for name in picked_heads(anatomy))
        for same in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            torch.testing.assert_close(output_of(same(**specimen.batch())), before, atol=1e-5, rtol=0)
    assert describe(model) == anatomy
    weights = model.encoder.layer[0].attention.attn.q.weight
    other = specimen.model().encoder.layer[0].attention.attn.q.weight.unflatten(0, (4, 8))
    assert torch.equal(weights.unflatten(0, (4, 8)), other[model.encoder.layer[0].attention.heads])
