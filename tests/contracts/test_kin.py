"""Models that have the layers of a specimen under other class names; and that every layer has one or the other."""

from typing import Any

import pytest
import torch
from contracts.elastics import assert_equal_outputs, masked_outputs
from contracts.models import SPECIMENS, by_name
from contracts.specimen import Specimen, spread
from contracts.test_costs import macs
from contracts.timm_models import is_at_least
from transformers import Gemma2Config, Gemma2Model, GemmaConfig, GemmaModel, MistralConfig, MistralModel

from pliant.elastic import Elastic
from pliant.families import FAMILIES
from pliant.families.layout import Family, class_name
from pliant.rankers.rank import rank

_OPTIONS: dict[str, Any] = {
    **by_name("bert").options,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
    "sliding_window": 4,
}
KIN = (
    Specimen("mistral", MistralModel, MistralConfig, _OPTIONS, "llama", (), 0, True, groups=2),
    Specimen("gemma", GemmaModel, GemmaConfig, _OPTIONS, "gemma", (), 0, True, groups=2),
    Specimen("gemma2", Gemma2Model, Gemma2Config, _OPTIONS, "gemma", (), 0, True, groups=2),
)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_layer_that_a_family_names_is_in_a_model_here(family: Family) -> None:
    """A name that is misspelt, or that its library no longer has, would never be noticed."""
    if family.name.startswith("timm") and not is_at_least(1, 0, 30):
        pytest.skip("needs timm 1.0.30 for all of them")
    models = [one.model(attention="eager") for one in (*SPECIMENS, *KIN) if one.family == family.name]
    assert family.layers <= {class_name(module) for model in models for module in model.modules()}


@pytest.mark.parametrize("kin", KIN, ids=lambda kin: kin.name)
@torch.no_grad()
def test_known_whole_and_cut(kin: Specimen) -> None:
    model, batch = kin.model(attention="eager"), kin.batch(seed=7)
    original = model(**batch)
    with torch.enable_grad():
        ranking = rank(model, kin.batches(), ranker="random", objective=spread)
    whole = Elastic(kin.model(attention="eager"), ranking)
    assert whole.anatomy.family == kin.family
    assert [site.units for site in whole.anatomy.sites if site.kind == "heads"] == [2, 2]
    assert_equal_outputs(whole.model(**batch), original)
    cut = whole.plan(sparsity=0.5)
    masked = masked_outputs(kin, model, ranking, cut, batch)
    assert_equal_outputs(whole.view(cut)(**batch), masked)
    assert_equal_outputs(whole.cut(sparsity=0.5)(**batch), masked)
    tokens = batch["input_ids"].shape[1]
    assert macs(whole.view(cut), batch) == len(batch["input_ids"]) * whole.cost(cut, tokens).macs
