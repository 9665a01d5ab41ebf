"""Models with the very layers of a specimen under other class names: enough to see that they are known."""

from typing import Any

import pytest
import torch
from contracts.elastics import assert_equal_outputs, masks_of
from contracts.models import by_name
from contracts.specimen import Specimen, spread
from contracts.test_costs import macs
from transformers import Gemma2Config, Gemma2Model, GemmaConfig, GemmaModel, MistralConfig, MistralModel

from pliant.elastic import Elastic
from pliant.gates import gated
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
    with gated(model, whole.anatomy, ranking.rest) as gates:
        gates.masks = masks_of(whole.anatomy, ranking, cut)
        masked = model(**batch)
    assert_equal_outputs(whole.view(cut)(**batch), masked)
    assert_equal_outputs(whole.cut(sparsity=0.5)(**batch), masked)
    tokens = batch["input_ids"].shape[1]
    assert macs(whole.view(cut), batch) == len(batch["input_ids"]) * whole.cost(cut, tokens).macs
