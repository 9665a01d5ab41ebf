"""MPNet: BERT's layout, and a bias on relative positions with a row for each head, which all layers share."""

from pliant.families import bert
from pliant.families.layout import Family, Heads, Layout, Neurons
from pliant.families.parts import Gives

LAYOUT = Layout(
    layers=frozenset({"transformers.models.mpnet.modeling_mpnet.MPNetLayer"}),
    heads=Heads(
        name="attention",
        projections=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
        output="attention.attn.o",
        head_dim="attention.attn.attention_head_size",
        counts=("attention.attn.num_attention_heads", "attention.attn.all_head_size"),
        # It returns the output and, where they are asked for, the weights of the attention.
        sublayer=Gives("attention.attn", returns=2),
        shared_bias=("attention", "position_bias"),
    ),
    neurons=Neurons("mlp", ("intermediate.dense",), "output.dense", sublayer=Gives("intermediate")),
    passive=frozenset(
        {
            "attention.attn.dropout",
            "attention.LayerNorm",
            "attention.dropout",
            "intermediate.intermediate_act_fn",
            "output.LayerNorm",
            "output.dropout",
        }
    ),
)

FAMILY = Family("mpnet", "MPNet", (LAYOUT,), "mean", bert.surroundings, output="output.LayerNorm")
