"""BERT and its kin: BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA; so MiniLM, BGE, E5 and GTE's first versions."""

from torch import nn

from pliant.families.layout import Family, Heads, Layout, Neurons, Surroundings
from pliant.families.parts import Gives

LAYOUT = Layout(
    layers=frozenset(
        {
            "transformers.models.bert.modeling_bert.BertLayer",
            "transformers.models.roberta.modeling_roberta.RobertaLayer",
            "transformers.models.xlm_roberta.modeling_xlm_roberta.XLMRobertaLayer",
            "transformers.models.camembert.modeling_camembert.CamembertLayer",
            "transformers.models.electra.modeling_electra.ElectraLayer",
        }
    ),
    heads=Heads(
        name="attention",
        projections=("attention.self.query", "attention.self.key", "attention.self.value"),
        output="attention.output.dense",
        head_dim="attention.self.attention_head_size",
        counts=("attention.self.num_attention_heads", "attention.self.all_head_size"),
        sublayer=Gives("attention.self", returns=2),
    ),
    neurons=Neurons("mlp", ("intermediate.dense",), "output.dense", sublayer=Gives("intermediate")),
    passive=frozenset(
        {
            "attention.self.dropout",
            "attention.output.LayerNorm",
            "attention.output.dropout",
            "intermediate.intermediate_act_fn",
            "output.LayerNorm",
            "output.dropout",
        }
    ),
)

_POOLERS = frozenset({"pooler", "seq_relationship"})
_CLASSIFIERS = frozenset({"classifier", "pre_classifier"})


def surroundings(model: nn.Module, layers: tuple[str, ...]) -> Surroundings:
    """Count the linear layers outside the sites: poolers and classifiers once, the others for each token."""
    return beside(model, layers, _positions(model))


def beside(
    model: nn.Module, layers: tuple[str, ...], tokens: int, classifiers: frozenset[str] = _CLASSIFIERS
) -> Surroundings:
    """Count the linear layers outside the sites of a model of texts.

    Args:
        model: The model.
        layers: Paths of its layers.
        tokens: Its longest input.
        classifiers: Names of the parts of a head that read a single vector; all others read every token's.
    """
    once = per_token = 0
    # A token classifier's head has the name that others give to one that reads a single vector.
    single = _POOLERS if type(model).__name__.endswith("ForTokenClassification") else _POOLERS | classifiers
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and not name.startswith(layers):
            if single & set(name.split(".")):
                once += module.weight.numel()
            else:
                per_token += module.weight.numel()
    return Surroundings(tokens, per_token, once)


def _positions(model: nn.Module) -> int:
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa and its kin count from the number after the padding's.
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    return 0


FAMILY = Family(
    "bert", "BERT, RoBERTa, XLM-R, MiniLM, BGE, E5", (LAYOUT,), "mean", surroundings, output="output.LayerNorm"
)
