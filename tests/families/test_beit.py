"""BEiT's relative positions: a table of each layer's own is cut with its heads, a shared one can't be."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from contracts.elastics import elastic
from contracts.models import by_name
from torch import nn
from transformers import BeitConfig, BeitModel

from pliant.errors import UnsupportedModelError
from pliant.evaluation.embedding import embed
from pliant.families import describe
from pliant.rankers.rank import rank

TABLE = "relative_position_bias.relative_position_bias_table"


def test_a_head_takes_its_column_along() -> None:
    with_table, without = (describe(by_name(name).model()) for name in ("beit-relative", "beit"))
    # A window of 3 × 3 patches has 5 × 5 distances, and 3 more to and from the class token.
    assert with_table.sites[0].unit_parameters == without.sites[0].unit_parameters + 28
    assert with_table.sites[1] == without.sites[1]
    whole = elastic("beit-relative")
    for model in (whole.at(sparsity=0.6), whole.cut(sparsity=0.6)):
        tables = [model.get_parameter(f"layers.{index}.{TABLE}") for index in (0, 1)]
        assert [table.shape for table in tables] == [(28, heads) for heads in whole.plan(sparsity=0.6).widths[::2]]


def test_only_without_a_table_can_all_heads_leave() -> None:
    for name, can in (("beit-relative", False), ("beit", True)):
        heads, neurons = describe(by_name(name).model()).sites[:2]
        assert (heads.sublayer is not None, neurons.sublayer is not None) == (can, True)


def test_a_table_that_all_layers_share_is_refused() -> None:
    config = BeitConfig(**{**by_name("beit").options, "use_shared_relative_position_bias": True})
    with pytest.raises(UnsupportedModelError, match=r"shared_position_bias, a BeitRelativePositionBias.*every layer"):
        describe(BeitModel(config))


@pytest.mark.parametrize(
    ("size", "call"),
    [
        ((40, 8), lambda model, batches: rank(model, batches, ranker="magnitude")),
        ((8, 40), lambda model, batches: embed(model, batches, "cls")),
    ],
    ids=["rank", "embed"],
)
def test_what_a_first_call_leaves_in_a_cache_can_be_trained_with(
    size: tuple[int, int], call: Callable[[Any, Any], object]
) -> None:
    """transformers keeps the positions of each image size, here sizes that no other test has."""
    specimen = by_name("beit-relative")
    model, batches = specimen.model(), [specimen.images(size, seed) for seed in range(2)]
    call(model, batches)
    model(**batches[0]).last_hidden_state.sum().backward()
    assert model.get_parameter(f"layers.0.{TABLE}").grad.any()


def renamed(model: nn.Module) -> None:
    bias = model.get_submodule("layers.1.relative_position_bias")
    bias.register_parameter("table", bias._parameters.pop("relative_position_bias_table"))


def too_narrow(model: nn.Module) -> None:
    bias = model.get_submodule("layers.1.relative_position_bias")
    bias.relative_position_bias_table = nn.Parameter(torch.zeros(28, 3))


@pytest.mark.parametrize("damage", [renamed, too_narrow])
def test_another_table_is_refused(damage: Callable[[nn.Module], None]) -> None:
    model = by_name("beit-relative").model()
    damage(model)
    with pytest.raises(UnsupportedModelError, match=rf"layers\.1\.{TABLE} is no table.*4 heads"):
        describe(model)
