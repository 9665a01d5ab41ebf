"""DistilBERT: BERT's layout under other names."""

from pliant.families import bert
from pliant.families.layout import Family, Heads, Layout, Neurons
from pliant.families.parts import Gives

LAYOUT = Layout(
    layers=frozenset({"transformers.models.distilbert.modeling_distilbert.TransformerBlock"}),
    heads=Heads(
        name="attention",
        projections=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        output="attention.out_lin",
        head_dim="attention.attention_head_size",
        counts=("attention.n_heads", "attention.dim"),
        sublayer=Gives("attention", returns=2),
    ),
    neurons=Neurons("ffn", ("ffn.lin1",), "ffn.lin2", sublayer=Gives("ffn")),
    passive=frozenset({"attention.dropout", "sa_layer_norm", "ffn.activation", "ffn.dropout", "output_layer_norm"}),
)

FAMILY = Family("distilbert", "DistilBERT", (LAYOUT,), "mean", bert.surroundings, output="output_layer_norm")
