"""ModernBERT, so GTE-ModernBERT: one layer packs query, key and value, another the gate and what it lets through."""

from torch import nn

from pliant.families import bert, rotary
from pliant.families.layout import Family, Heads, Layout, Neurons, Surroundings
from pliant.families.parts import Gives, Packs

LAYOUT = Layout(
    layers=frozenset({"transformers.models.modernbert.modeling_modernbert.ModernBertEncoderLayer"}),
    heads=Heads(
        name="attn",
        projections=(Packs("attn.Wqkv", 3),),
        output="attn.Wo",
        head_dim="attn.head_dim",
        sublayer=Gives("attn", returns=2),
    ),
    neurons=Neurons("mlp", (Packs("mlp.Wi", 2),), "mlp.Wo", sublayer=Gives("mlp")),
    passive=frozenset({"attn_norm", "attn.out_drop", "mlp_norm", "mlp.act", "mlp.drop"}),
)

_SINGLE = ("ForSequenceClassification", "ForMultipleChoice")


def surroundings(model: nn.Module, layers: tuple[str, ...]) -> Surroundings:
    """Count what lies beside the layers; one name stands for heads that read every token and for those that don't."""
    classifiers = {"classifier", "head"} if type(model).__name__.endswith(_SINGLE) else {"classifier"}
    return bert.beside(model, layers, rotary.tokens(model), frozenset(classifiers))


FAMILY = Family("modernbert", "ModernBERT, GTE-ModernBERT", (LAYOUT,), "mean", surroundings, output="final_norm")
