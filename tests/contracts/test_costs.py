"""What a cut costs, counted independently: parameters from the module, multiply-accumulates from its operations."""

import pytest
import torch
import transformers
from contracts.elastics import elastic, origin, ranked
from contracts.models import IMAGES, TEXT, by_name, specimens
from contracts.specimen import Specimen, sentences
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from pliant.anatomy import Anatomy
from pliant.batches import Batch, forward
from pliant.cost import cost_of
from pliant.elastic import Elastic
from pliant.families import describe
from pliant.gates import frozen
from pliant.surgery import slots

SPARSITIES = (0.0, 0.1, 0.35, 0.6, 0.75)


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def in_units(model: nn.Module, anatomy: Anatomy) -> int:
    """Parameters of the tensors that units live in; a cut that gained a bias for its constants has others too."""
    held = {slot.name for site in anatomy.sites for slot in slots(site)}
    return sum(parameter.numel() for name, parameter in model.named_parameters() if origin(name, anatomy).name in held)


def macs(model: nn.Module, batch: Batch) -> int:
    """Half the floating-point operations: the counter says 2 for each multiply-accumulate.

    Without those of resizing positions, which most models interpolate, and newer releases of SigLIP 2 multiply, and of
    the angles of rotary positions, which some releases of transformers get from a product of matrices.
    """
    with frozen(model), torch.no_grad(), FlopCounterMode(display=False) as counter:
        forward(model, batch)
    of_module = {name: sum(flops.values()) for name, flops in counter.get_flop_counts().items()}
    others = sum(flops for name, flops in of_module.items() if name.endswith(".rotary_emb"))
    if isinstance(batch, dict) and "spatial_shapes" in batch:
        (embeddings,) = (name for name in of_module if name.endswith(".embeddings"))
        others += of_module[embeddings] - of_module[f"{embeddings}.patch_embedding"]
    return (counter.get_total_flops() - others) // 2


@specimens
@pytest.mark.parametrize("neurons", [1, 8])
def test_parameters_are_what_cost_says(specimen: Specimen, neurons: int) -> None:
    whole = elastic(specimen.name, "mean", neurons)
    full = parameters(specimen.model())
    assert whole.anatomy.total_parameters == full
    for sparsity in SPARSITIES:
        cut = whole.plan(sparsity=sparsity)
        cost = whole.cost(cut)
        own = whole.cut(sparsity=sparsity)
        assert parameters(own) == parameters(whole.view(cut)) == cost.parameters
        units = in_units(whole.model, whole.anatomy)
        assert units == whole.anatomy.prunable_parameters
        assert cost.sparsity == (units - in_units(own, whole.anatomy)) / units
        assert cost.sparsity >= sparsity


@specimens
def test_one_unit_costs_its_parameters(specimen: Specimen) -> None:
    whole = elastic(specimen.name, "mean", 1)
    widths = [site.units for site in whole.anatomy.sites]
    for index, site in enumerate(whole.anatomy.sites):
        fewer = tuple(width - (index == other) for other, width in enumerate(widths))
        removed = whole.anatomy.total_parameters - cost_of(whole.anatomy, fewer).parameters
        gained = 0 if site.consumer_bias else site.outputs
        lost = site.sublayer.others if site.sublayer and site.units == 1 else 0
        assert removed == site.unit_parameters - gained + lost


@pytest.mark.parametrize("specimen", TEXT, ids=lambda specimen: specimen.name)
@pytest.mark.parametrize("tokens", [1, 9, 38])
def test_macs_of_texts(specimen: Specimen, tokens: int) -> None:
    whole = Elastic(specimen.model(attention="eager"), ranked(specimen.name))
    batch = specimen.padded(sentences([tokens, tokens], seed=0, first=2))
    assert macs(whole.model, batch) == 2 * whole.anatomy.macs(tokens)
    for sparsity in SPARSITIES:
        counted = macs(whole.at(sparsity=sparsity), batch)
        assert counted == 2 * whole.cost(whole.plan(sparsity=sparsity), tokens).macs


@pytest.mark.parametrize("specimen", IMAGES, ids=lambda specimen: specimen.name)
def test_macs_of_images(specimen: Specimen) -> None:
    whole = Elastic(specimen.model(attention="eager"), ranked(specimen.name))
    for size in specimen.sizes:
        batch = specimen.images(size, count=2)
        tokens = specimen.tokens(whole.model, batch)
        assert macs(whole.model, batch) == 2 * whole.anatomy.macs(tokens)
        for sparsity in SPARSITIES:
            counted = macs(whole.at(sparsity=sparsity), batch)
            assert counted == 2 * whole.cost(whole.plan(sparsity=sparsity), tokens).macs


@pytest.mark.parametrize("specimen", IMAGES, ids=lambda specimen: specimen.name)
def test_native_tokens_of_images(specimen: Specimen) -> None:
    model = specimen.model()
    assert describe(model).native_tokens == specimen.tokens(model, specimen.images(specimen.sizes[0]))


@pytest.mark.parametrize("specimen", TEXT, ids=lambda specimen: specimen.name)
def test_native_tokens_of_texts_are_the_most_that_fit(specimen: Specimen) -> None:
    model = specimen.model()
    native = describe(model).native_tokens
    if specimen.rotary:  # has no table of positions that would end
        assert native == specimen.options["max_position_embeddings"]
        return
    assert len(model(**specimen.padded(sentences([native], seed=0, first=2)))) > 0
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        model(**specimen.padded(sentences([native + 1], seed=0, first=2)))


@pytest.mark.parametrize("name", ["bert", "dinov2-gated"])
def test_the_budget_in_macs_holds_for_the_counted_ones(name: str) -> None:
    specimen = by_name(name)
    whole = Elastic(specimen.model(attention="eager"), ranked(name))
    batch = specimen.batch(count=1)
    tokens = next(iter(whole.model(**batch).values())).shape[1]
    limit = whole.anatomy.macs(tokens) * 6 // 10
    counted = macs(whole.at(macs=limit, tokens=tokens), batch)
    assert 0.8 * limit < counted <= limit


HEADS = (
    ("bert", "BertForTokenClassification"),
    ("bert", "BertForQuestionAnswering"),
    ("bert", "BertForMaskedLM"),
    ("bert", "BertForPreTraining"),
    ("roberta", "RobertaForSequenceClassification"),
    ("roberta", "RobertaForTokenClassification"),
    ("electra", "ElectraForPreTraining"),
    ("electra", "ElectraForSequenceClassification"),
    ("distilbert", "DistilBertForSequenceClassification"),
    ("distilbert", "DistilBertForMaskedLM"),
    ("mpnet", "MPNetForSequenceClassification"),
    ("mpnet", "MPNetForTokenClassification"),
    ("modernbert", "ModernBertForMaskedLM"),
    ("modernbert", "ModernBertForSequenceClassification"),
    ("modernbert", "ModernBertForTokenClassification"),
    ("nomic-bert", "NomicBertForSequenceClassification"),
    ("gte", "GteForTokenClassification"),
    ("qwen3", "Qwen3ForCausalLM"),
    ("qwen3", "Qwen3ForSequenceClassification"),
    ("embedding-gemma", "Gemma3ForCausalLM"),
    ("vit", "ViTForImageClassification"),
    ("deit", "DeiTForImageClassificationWithTeacher"),
    ("dinov2", "Dinov2ForImageClassification"),
    ("dinov2-registers", "Dinov2WithRegistersForImageClassification"),
    ("beit", "BeitForImageClassification"),
    ("beit-relative", "BeitForMaskedImageModeling"),
    ("clip-text", "CLIPTextModel"),
    ("clip-vision", "CLIPVisionModelWithProjection"),
    ("clip-vision", "CLIPForImageClassification"),
    ("siglip-vision", "SiglipForImageClassification"),
    ("siglip2-vision", "Siglip2ForImageClassification"),
)


@pytest.mark.parametrize(("name", "head"), HEADS, ids=lambda value: value)
def test_macs_with_a_head(name: str, head: str) -> None:
    """Some heads read one vector, others every token."""
    specimen, model_class = by_name(name), getattr(transformers, head)
    # A classifier on one tower of two has the configuration of both.
    both = "vision_config" in model_class.config_class.sub_configs
    options = {"vision_config": specimen.options} if both else specimen.options
    config = model_class.config_class(**{**options, "attn_implementation": "eager"})
    model = model_class(config).eval()
    anatomy = describe(model)
    batch = (
        specimen.padded(sentences([9], 0, first=2)) if specimen.reads_text else specimen.images(specimen.sizes[0], 0, 1)
    )
    tokens = 9 if specimen.reads_text else anatomy.native_tokens
    assert macs(model, batch) == anatomy.macs(tokens)
    assert parameters(model) == anatomy.total_parameters
