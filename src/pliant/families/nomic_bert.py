"""Nomic BERT: an encoder with rotary positions, a gated MLP, and norms behind its sublayers."""

from dataclasses import replace

from pliant.families import llama, rotary
from pliant.families.layout import Family

LAYOUT = replace(
    llama.LAYOUT,
    layers=frozenset({"transformers.models.nomic_bert.modeling_nomic_bert.NomicBertLayer"}),
    passive=frozenset(
        {
            "post_attention_layernorm",
            "post_attention_dropout",
            "post_mlp_layernorm",
            "post_mlp_dropout",
            "mlp.act_fn",
        }
    ),
    notes=(),
)

FAMILY = Family("nomic_bert", "Nomic Embed", (LAYOUT,), "mean", rotary.surroundings, output="post_mlp_layernorm")
