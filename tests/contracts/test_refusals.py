"""Models that can't be cut are refused, with the part named, and are left as they were."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from contracts.models import by_name, specimens
from contracts.specimen import Specimen
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from pliant.elastic import Elastic
from pliant.errors import UnsupportedModelError
from pliant.families import describe
from pliant.rankers.rank import rank

Damage = Callable[[Any], None]


class LowRank(nn.Linear):
    """A linear layer that does more than it seems to."""


class Packed(nn.Module):
    """Looks like a quantised linear layer: the attributes of one, and no weight to cut."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.register_buffer("packed", torch.zeros(linear.weight.shape, dtype=torch.int8))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.new_zeros((*inputs.shape[:-1], self.out_features))


def subclassed(model: Any) -> None:
    model.encoder.layer[1].output.dense.__class__ = LowRank


def packed(model: Any) -> None:
    model.encoder.layer[1].attention.self.value = Packed(model.encoder.layer[1].attention.self.value)


def adapted(model: Any) -> None:
    model.encoder.layer[0].adapter = nn.Linear(32, 32)


def removed(model: Any) -> None:
    model.encoder.layer[0].intermediate.dense = nn.Identity()


def normalised(model: Any) -> None:
    nn.utils.parametrizations.weight_norm(model.encoder.layer[0].output.dense)


def masked(model: Any) -> None:
    from torch.nn.utils import prune

    prune.l1_unstructured(model.encoder.layer[1].intermediate.dense, "weight", amount=0.5)


def one_layer_twice(model: Any) -> None:
    model.encoder.layer[1] = model.encoder.layer[0]


def shared_weight(model: Any) -> None:
    model.encoder.layer[1].intermediate.dense.weight = model.encoder.layer[0].intermediate.dense.weight


def stale_heads(model: Any) -> None:
    model.encoder.layer[1].attention.self.attention_head_size = 5


DAMAGES: dict[Damage, str] = {
    subclassed: r"encoder\.layer\.1\.output\.dense is a LowRank",
    packed: r"encoder\.layer\.1\.attention\.self\.value is a Packed",
    adapted: r"doesn't know encoder\.layer\.0\.adapter\. Known parts: .*attention\.self\.query",
    removed: r"encoder\.layer\.0\.intermediate\.dense is a Identity",
    normalised: r"encoder\.layer\.0\.output\.dense",
    masked: r"encoder\.layer\.1\.intermediate\.dense has parameters besides",
    one_layer_twice: r"encoder\.layer\.1\.attention\.self\.query\.weight is the same parameter as encoder\.layer\.0",
    shared_weight: r"encoder\.layer\.1\.intermediate\.dense\.weight is the same parameter as encoder\.layer\.0",
    stale_heads: r"encoder\.layer\.1\.attention.*takes 5",
}


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_the_part_is_named_and_nothing_is_pruned(damage: Damage) -> None:
    specimen = by_name("bert")
    ranking = rank(specimen.model(), specimen.batches(), ranker="random")
    model = specimen.model()
    damage(model)
    before = weights_of(model)
    for refused in (
        lambda: describe(model),
        lambda: rank(model, specimen.batches(), ranker="random"),
        lambda: Elastic(model, ranking),
    ):
        with pytest.raises(UnsupportedModelError, match=DAMAGES[damage]):
            refused()
    after = weights_of(model)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


@specimens
def test_a_module_inserted_anywhere_in_a_layer_is_named(specimen: Specimen) -> None:
    sites = describe(specimen.model()).sites
    for path in {site.name.rpartition(".")[0] for site in sites} | {site.consumer.rpartition(".")[0] for site in sites}:
        model = specimen.model()
        model.get_submodule(path).add_module("intruder", nn.Linear(4, 4))
        with pytest.raises(UnsupportedModelError, match=f"{path}.intruder"):
            describe(model)


@specimens
def test_every_projection_must_be_a_plain_linear(specimen: Specimen) -> None:
    for site in describe(specimen.model()).sites:
        for path in (site.consumer, *(producer.module for producer in site.producers)):
            model = specimen.model()
            model.get_submodule(path).__class__ = LowRank
            with pytest.raises(UnsupportedModelError, match=f"{path} is a LowRank"):
                describe(model)


@specimens
def test_a_renamed_projection_is_named(specimen: Specimen) -> None:
    sites = describe(specimen.model()).sites[-2:]
    for path in {path for site in sites for path in (site.consumer, *(part.module for part in site.producers))}:
        parent, _, name = path.rpartition(".")
        model = specimen.model()
        modules = model.get_submodule(parent)._modules
        modules["renamed"] = modules.pop(name)
        with pytest.raises(UnsupportedModelError, match=rf"doesn't know {parent}\.renamed[., ]"):
            describe(model)


@specimens
def test_a_missing_projection_is_named(specimen: Specimen) -> None:
    for site in describe(specimen.model()).sites[-2:]:
        model = specimen.model()
        parent, _, name = site.consumer.rpartition(".")
        del model.get_submodule(parent)._modules[name]
        with pytest.raises(UnsupportedModelError, match=f"misses .*{site.consumer}[.,]"):
            describe(model)


@specimens
def test_a_renamed_attribute_is_named(specimen: Specimen) -> None:
    for attribute in describe(specimen.model()).sites[-2].attributes:
        model = specimen.model()
        module = model.get_submodule(attribute.module)
        vars(module)["renamed"] = vars(module).pop(attribute.name)
        with pytest.raises(UnsupportedModelError, match=rf"{attribute.module}\.{attribute.name} is None"):
            describe(model)


def test_cross_attention() -> None:
    specimen = by_name("bert")
    config = BertConfig(**specimen.options, is_decoder=True, add_cross_attention=True)
    with pytest.raises(UnsupportedModelError, match=r"encoder\.layer\.0\.crossattention\.self\.query"):
        describe(BertModel(config))


def test_two_towers() -> None:
    towers = nn.ModuleDict({"text": by_name("bert").model(), "image": by_name("vit").model()})
    with pytest.raises(UnsupportedModelError, match=r"bert and vit.*one tower"):
        describe(towers)
    assert describe(towers["text"]).family == "bert"


@pytest.mark.parametrize(
    "model",
    [nn.Transformer(16, 2, 1, 1, 16, batch_first=True), nn.Linear(2, 2), nn.Sequential()],
    ids=lambda model: type(model).__name__,
)
def test_no_family(model: nn.Module) -> None:
    with pytest.raises(UnsupportedModelError, match=rf"{type(model).__name__} is of no family.*bert.*vit.*dinov2"):
        describe(model)


@pytest.mark.parametrize(
    ("name", "part"),
    [("bert", "encoder"), ("vit", "layers.0"), ("qwen3", "layers"), ("clip-text", "text_model.encoder")],
)
def test_a_part_of_a_model(name: str, part: str) -> None:
    with pytest.raises(UnsupportedModelError, match=r"no embeddings of positions.*Pass the whole encoder"):
        describe(by_name(name).model().get_submodule(part))


@pytest.mark.parametrize("inside", ["", "encoder", "encoder.layer.0.attention.self"])
def test_a_replaced_forward(inside: str) -> None:
    model = by_name("bert").model()
    module = model.get_submodule(inside)
    module.forward = module.forward  # as accelerate does: an attribute, bound to this very module
    with pytest.raises(UnsupportedModelError, match="in the place of"):
        describe(model)


def test_a_compiled_model() -> None:
    model = by_name("bert").model()
    compiled: Any = torch.compile(model, backend="eager")
    with pytest.raises(UnsupportedModelError, match="_orig_mod"):
        describe(compiled)
    assert describe(compiled._orig_mod) == describe(model)


@pytest.mark.parametrize("thing", ["bert", None, 5, BertModel], ids=str)
def test_what_is_no_model(thing: Any) -> None:
    with pytest.raises(UnsupportedModelError, match="no model"):
        describe(thing)
