"""What running layers again in the backward pass must prove: the same gradients to the bit, kept in less memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from contracts.elastics import ranked
from contracts.models import by_name, specimens
from contracts.planted import QUICK, assert_same, planted
from contracts.specimen import Specimen, spread
from torch import Tensor, nn

from pliant.anatomy import Anatomy, Producer, Site
from pliant.batches import forward
from pliant.families import describe
from pliant.gates import frozen, gated
from pliant.rankers.rank import rank
from pliant.rankers.soft_mask import SoftMask


def gradients(
    model: Any, anatomy: Anatomy, rest: tuple[Tensor, ...], batch: Any, *, checkpointing: bool
) -> list[tuple[Tensor, ...]]:
    """Gradients of two losses under two masks, both taken after a third mask was set, and the first of all last."""
    values = tuple(value.clone().requires_grad_() for value in rest)
    masks = [torch.linspace(low, 1 - low, anatomy.units).requires_grad_() for low in (0.1, 0.7)]
    with frozen(model), gated(model, anatomy, values, checkpointing=checkpointing) as gates:
        losses = []
        for mask in masks:
            gates.masks = mask
            losses.append(spread(forward(model, batch), batch))
        present = gates.masks = torch.zeros(anatomy.units)
        found = [
            torch.autograd.grad(loss, (mask, *values)) for loss, mask in reversed(list(zip(losses, masks, strict=True)))
        ]
        assert gates.masks is present
    return found


@specimens
def test_gradients_are_the_same_to_the_bit(specimen: Specimen) -> None:
    """A layer runs again under the masks that it ran under, whatever has been set since."""
    model, batch, rest = specimen.model(), specimen.batch(), ranked(specimen.name).rest
    anatomy = describe(model)
    kept, again = (gradients(model, anatomy, rest, batch, checkpointing=each) for each in (False, True))
    for mine, theirs in zip(kept, again, strict=True):
        assert mine[0].any()
        assert all(map(torch.equal, mine, theirs))


@specimens
def test_the_ranking_is_the_same_to_the_bit(specimen: Specimen) -> None:
    found = [
        rank(specimen.model(), specimen.batches(4), objective=spread, settings=SoftMask(steps=2, checkpointing=each))
        for each in (False, True)
    ]
    assert_same(*found)


@pytest.mark.parametrize("ranker", ["fisher", "taylor"])
def test_baselines_take_it_too(ranker: str) -> None:
    specimen = by_name("bert")
    settings = [SoftMask(checkpointing=each) for each in (False, True)]
    assert_same(*(rank(specimen.model(), specimen.batches(), ranker=ranker, settings=each) for each in settings))


def kept_bytes(specimen: Specimen, checkpointing: bool) -> int:
    """Bytes of activations that a forward pass keeps for the backward one."""
    model, kept = specimen.model(), dict[int, int]()
    anatomy, weights = describe(model), {parameter.data_ptr() for parameter in model.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with frozen(model), gated(model, anatomy, ranked(specimen.name).rest, checkpointing=checkpointing) as gates:
        gates.masks = torch.ones(anatomy.units, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = spread(forward(model, specimen.batch()), specimen.batch())
    assert loss.requires_grad
    return sum(kept.values())


@specimens
def test_less_is_kept(specimen: Specimen) -> None:
    assert kept_bytes(specimen, checkpointing=True) < 0.5 * kept_bytes(specimen, checkpointing=False)


def runs(model: nn.Module, path: str, batch: Any, *, learn: bool) -> int:
    """How often a module runs in a forward and, when there is something to learn, a backward pass."""
    anatomy, count = describe(model), []
    handle = model.get_submodule(path).register_forward_hook(lambda *_: count.append(1))
    with frozen(model), gated(model, anatomy, ranked("bert").rest, checkpointing=True) as gates:
        with torch.set_grad_enabled(learn):
            gates.masks = torch.ones(anatomy.units, requires_grad=learn)
            loss = spread(forward(model, batch), batch)
        if learn:
            loss.backward()
    handle.remove()
    return len(count)


def test_layers_run_again_only_where_there_are_gradients() -> None:
    specimen = by_name("bert")
    model = specimen.model()
    inner = describe(model).sites[0].producers[0].module
    assert runs(model, inner, specimen.batch(), learn=True) == 2
    assert runs(model, inner, specimen.batch(), learn=False) == 1
    assert not any("forward" in vars(module) for module in model.modules())


def test_nothing_of_it_is_left_after_an_error() -> None:
    specimen = by_name("bert")
    model = specimen.model()
    anatomy = describe(model)
    with pytest.raises(ZeroDivisionError), gated(model, anatomy, ranked("bert").rest, checkpointing=True):
        assert all("forward" in vars(model.get_submodule(path)) for path in anatomy.layers)
        raise ZeroDivisionError
    assert describe(model) == anatomy


def decoder() -> tuple[Any, Anatomy]:
    """A decoder that fills a cache of keys and values as it goes, and the sites of its MLPs."""
    from transformers import Qwen3Config, Qwen3Model

    torch.manual_seed(0)
    sizes: dict[str, Any] = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, vocab_size=30)
    model = Qwen3Model(Qwen3Config(**sizes, num_attention_heads=2, num_key_value_heads=1, head_dim=8)).eval()
    layers = tuple(f"layers.{index}" for index in range(2))
    sites = tuple(
        Site(
            f"{path}.mlp",
            "neurons",
            index,
            24,
            1,
            f"{path}.mlp.down_proj",
            16,
            tuple(Producer(f"{path}.mlp.{name}_proj", 1, 16, False) for name in ("gate", "up")),
            consumer_bias=False,
        )
        for index, path in enumerate(layers)
    )
    return model, Anatomy("made up", sites, "last", 0, 16, layers=layers)


def test_a_second_run_adds_nothing_to_a_cache() -> None:
    model, anatomy = decoder()
    rest = tuple(torch.rand(24) for _ in anatomy.sites)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
    batch = {"input_ids": torch.arange(12).reshape(2, 6), "attention_mask": mask, "use_cache": True}
    kept, again = (gradients(model, anatomy, rest, batch, checkpointing=each) for each in (False, True))
    for mine, theirs in zip(kept, again, strict=True):
        assert all(map(torch.equal, mine, theirs))


def test_weights_get_no_gradients() -> None:
    """Whatever the model's own flags say, ranking keeps memory for none."""
    for checkpointing in (False, True):
        model, _ = planted()
        rank(model, by_name("bert").batches(), settings=SoftMask(steps=2, checkpointing=checkpointing))
        assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


def test_a_search_may_go_on_with_it(tmp_path: Path) -> None:
    """So that one that ran out of memory isn't lost."""
    model, _ = planted()
    options: dict[str, Any] = dict(checkpoint=tmp_path / "search", settings=QUICK)
    whole = rank(model, by_name("bert").batches(), settings=QUICK)

    def stop(done: int, loss: float) -> None:
        if done == 4:
            raise MemoryError

    with pytest.raises(MemoryError):
        rank(model, by_name("bert").batches(), **options, watch=stop)
    options["settings"] = replace(QUICK, checkpointing=True)
    assert_same(rank(model, by_name("bert").batches(), **options, resume=True), whole)
