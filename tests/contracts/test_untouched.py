"""What looking at a model leaves behind: nothing. And what views and cuts share: everything, and nothing."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from contracts.elastics import elastic, fresh_elastic, origin, ranked
from contracts.models import TRANSFORMERS, by_name, specimens
from contracts.specimen import HEADS, Specimen, spread
from torch import Tensor, nn

from pliant.anatomy import Anatomy
from pliant.budget import Cut
from pliant.families import describe
from pliant.gates import frozen, gated
from pliant.rankers.rank import RANKERS, rank
from pliant.rankers.soft_mask import SoftMask
from pliant.replacements import Packed
from pliant.surgery import picked_heads, standalone


class Stopped(Exception):
    """Raised in the middle of something."""


def state_of(model: nn.Module) -> dict[str, Any]:
    """Everything of a model that can be compared: weights as bytes, flags, hooks, plain attributes."""
    found: dict[str, Any] = {"rng": torch.get_rng_state().tolist()}
    for name, tensor in model.state_dict().items():
        found[f"{name} data"] = (tensor.data_ptr(), tensor.numpy().tobytes())
    for name, parameter in model.named_parameters():
        found[f"{name} flags"] = (id(parameter), parameter.requires_grad, parameter.grad)
    for path, module in model.named_modules():
        for key, value in vars(module).items():
            if key.endswith("hooks"):
                found[f"{path}.{key}"] = list(value)
            elif isinstance(value, (int, float, str, bool, tuple)) or value is None:
                found[f"{path}.{key}"] = value
    return found


def scrambled(specimen: Specimen) -> Any:
    """A model whose flags and hooks differ from module to module."""
    model = specimen.model()
    for index, module in enumerate(model.modules()):
        module.training = index % 3 == 0 and not list(module.children())
    for index, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(index % 2 == 0)
    site = describe(model).sites[0]
    model.get_submodule(site.consumer).register_forward_pre_hook(lambda module, arguments: None)
    return model


@specimens
@pytest.mark.parametrize("ranker", RANKERS)
def test_rank_leaves_no_trace(specimen: Specimen, ranker: str) -> None:
    model = scrambled(specimen)
    before = state_of(model)
    rank(model, specimen.batches(4), ranker=ranker, steps=2, objective=spread)
    assert state_of(model) == before


@specimens
def test_checkpointing_leaves_no_trace(specimen: Specimen) -> None:
    model = scrambled(specimen)
    before = state_of(model)
    rank(model, specimen.batches(4), settings=SoftMask(steps=2, checkpointing=True), objective=spread)
    assert state_of(model) == before
    assert not any("forward" in vars(module) for module in model.modules())


@specimens
def test_describe_leaves_no_trace(specimen: Specimen) -> None:
    model = scrambled(specimen)
    before = state_of(model)
    describe(model)
    assert state_of(model) == before


@specimens
def test_gates_leave_no_trace(specimen: Specimen) -> None:
    model = scrambled(specimen)
    anatomy, before = describe(model), state_of(model)
    with frozen(model), gated(model, anatomy, ranked(specimen.name).rest) as gates:
        gates.masks = torch.zeros(anatomy.units)
        specimen.call(model, specimen.batch())
        assert state_of(model) != before
    assert state_of(model) == before


@pytest.mark.parametrize("ranker", ["soft-mask", "fisher", "taylor"])
def test_an_error_on_the_way_leaves_no_trace(ranker: str) -> None:
    specimen = by_name("bert")
    model = scrambled(specimen)
    before = state_of(model)
    calls = []

    def fails(outputs: Any, batch: Any) -> Tensor:
        calls.append(1)
        if len(calls) > 1:
            raise Stopped
        return spread(outputs, batch)

    with pytest.raises(Stopped):
        rank(model, specimen.batches(4), ranker=ranker, objective=fails)
    assert state_of(model) == before


def test_rank_says_the_same_whatever_mode_the_model_is_in() -> None:
    """Dropout is on in a model that trains; ranking turns it off."""
    specimen = by_name("bert")
    training = specimen.model().train()
    found = rank(training, specimen.batches(), ranker="fisher")
    assert torch.equal(found.scores, rank(specimen.model(), specimen.batches(), ranker="fisher").scores)
    assert training.training


def numbers_of(model: nn.Module, anatomy: Anatomy) -> list[tuple[int, ...]]:
    found = []
    for site in anatomy.sites:
        linears = [model.get_submodule(path) for path in (site.consumer, *(p.module for p in site.producers))]
        sizes = [int(getattr(linear, name)) for linear in linears for name in ("in_features", "out_features")]
        counts = [getattr(model.get_submodule(attribute.module), attribute.name) for attribute in site.attributes]
        found.append((*sizes, *counts))
    return found


def half_of_every_site(anatomy: Anatomy) -> Cut:
    return Cut(tuple(max(1, site.units // 2) for site in anatomy.sites))


def parts_of(linear: Any, name: str, parts: int) -> list[Tensor]:
    """The weights or biases of the projections that a layer packs, wherever a view or a cut has them."""
    if isinstance(linear, Packed):
        return [part for part in (linear.weights if name == "weight" else linear.biases) if part is not None]
    whole = getattr(linear, name)
    return [] if whole is None else list(whole.chunk(parts))


@specimens
@pytest.mark.parametrize("make", ["at", "cut"])
def test_attributes_follow_the_widths(specimen: Specimen, make: str) -> None:
    whole = elastic(specimen.name)
    before = numbers_of(whole.model, whole.anatomy)
    cut = half_of_every_site(whole.anatomy)
    model: Any = whole.view(cut) if make == "at" else standalone(whole.view(cut))
    for site, width in zip(whole.anatomy.sites, cut.widths, strict=True):
        consumer = model.get_submodule(site.consumer)
        assert consumer.in_features == width * site.width == consumer.weight.shape[1]
        assert consumer.out_features == site.outputs == consumer.weight.shape[0]
        for producer in site.producers:
            linear = model.get_submodule(producer.module)
            rows = width * producer.rows
            assert (linear.in_features, linear.out_features) == (producer.inputs, producer.parts * rows)
            assert {weight.shape for weight in parts_of(linear, "weight", producer.parts)} == {(rows, producer.inputs)}
            assert {bias.shape for bias in parts_of(linear, "bias", producer.parts)} <= {(rows,)}
        for attribute in site.attributes:
            found = getattr(model.get_submodule(attribute.module), attribute.name)
            assert found == width * attribute.per_unit
        if site.kind == "heads":
            attention = model.get_submodule(site.producers[0].module.rpartition(".")[0])
            heads, names = width * HEADS // specimen.groups, ("num_attention_heads", "n_heads", "num_heads")
            assert {getattr(attention, name, heads) for name in names} == {heads}
            assert getattr(attention, "all_head_size", width * 8) == width * 8
    assert numbers_of(whole.model, whole.anatomy) == before
    assert numbers_of(specimen.model(), whole.anatomy) == before


def pointers(model: nn.Module) -> dict[str, int]:
    return {name: tensor.untyped_storage().data_ptr() for name, tensor in model.state_dict(keep_vars=True).items()}


@specimens
def test_views_share_all_storage_but_the_rest_biases(specimen: Specimen) -> None:
    whole = elastic(specimen.name)
    cut = half_of_every_site(whole.anatomy)
    full, view = pointers(whole.model), pointers(whole.view(cut))
    own = {name for name in view if view[name] not in full.values()}
    narrowed = [site for site, width in zip(whole.anatomy.sites, cut.widths, strict=True) if width < site.units]
    assert own == {f"{site.consumer}.bias" for site in narrowed}
    assert all(view[name] == full[name] for name in view.keys() & full.keys() - own)


@specimens
@pytest.mark.parametrize("sparsity", [0.0, 0.6])
def test_cuts_share_nothing(specimen: Specimen, sparsity: float) -> None:
    whole = elastic(specimen.name)
    cut = whole.cut(sparsity=sparsity)
    assert not set(pointers(cut).values()) & set(pointers(whole.model).values())
    for name, tensor in [*cut.named_parameters(), *cut.named_buffers()]:
        assert tensor.is_contiguous(), name
        assert tensor.untyped_storage().nbytes() == tensor.nbytes, name


@specimens
def test_views_and_cuts_keep_the_flags(specimen: Specimen) -> None:
    whole = fresh_elastic(specimen)
    for index, parameter in enumerate(whole.model.parameters()):
        parameter.requires_grad_(index % 2 == 0)
    wanted = {name: parameter.requires_grad for name, parameter in whole.model.named_parameters()}
    view = whole.view(half_of_every_site(whole.anatomy))
    for model in (view, standalone(view)):
        for name, parameter in model.named_parameters():
            whole_name = origin(name, whole.anatomy).name
            # A bias that a consumer gains does as its weight does.
            known = whole_name if whole_name in wanted else f"{whole_name.rpartition('.')[0]}.weight"
            assert parameter.requires_grad == wanted[known], name
        assert not any(module.training for module in model.modules())


@specimens
def test_the_full_model_is_only_reordered(specimen: Specimen) -> None:
    whole, original = elastic(specimen.name), specimen.model().state_dict()
    state = whole.model.state_dict()
    assert state.keys() == original.keys() | picked_heads(whole.anatomy)
    for name, tensor in original.items():
        assert torch.equal(tensor.flatten().sort().values, state[name].flatten().sort().values), name


def hidden_states(model: Any, specimen: Specimen) -> int:
    with torch.no_grad():
        return len(model(**specimen.batch(), output_hidden_states=True).hidden_states)


@pytest.mark.parametrize("specimen", TRANSFORMERS, ids=lambda specimen: specimen.name)
@pytest.mark.parametrize("first", ["full", "whole view", "view", "cut"])
def test_hooks_on_one_size_do_not_run_in_another(specimen: Specimen, first: str) -> None:
    """transformers records hidden states by hooks that it adds when they are first asked for."""
    whole = fresh_elastic(specimen)
    makers: dict[str, Callable[[], Any]] = {
        "full": lambda: whole.model,
        "whole view": lambda: whole.at(sparsity=0),
        "view": lambda: whole.at(sparsity=0.6),
        "cut": lambda: whole.cut(sparsity=0.6),
    }
    order = [first, *(name for name in makers if name != first)]
    models = [makers[name]() for name in order]
    for _ in range(2):
        assert [hidden_states(model, specimen) for model in models] == [3] * 4


def test_a_user_hook_on_a_view_stays_there() -> None:
    whole = fresh_elastic(by_name("bert"))
    view, other = whole.at(sparsity=0.5), whole.at(sparsity=0.3)
    seen = []
    for site in whole.anatomy.sites:
        view.get_submodule(site.consumer).register_forward_hook(lambda *_: seen.append(1))
    with torch.no_grad():
        whole.model(**by_name("bert").batch())
        other(**by_name("bert").batch())
        assert not seen
        view(**by_name("bert").batch())
    assert len(seen) == len(whole.anatomy.sites)
