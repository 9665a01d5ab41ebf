"""GTE v1.5 and GTE multilingual: Nomic BERT's layout with biases. GTE's first versions are BERT, its last ModernBERT.

These are checkpoints of transformers' own type `gte`. Those of the type `new` bring code of their own, which pliant
doesn't run.
"""

from dataclasses import replace

from pliant.families import nomic_bert, rotary
from pliant.families.layout import Family

LAYOUT = replace(
    nomic_bert.LAYOUT,
    layers=frozenset({"transformers.models.gte.modeling_gte.GteLayer"}),
    passive=nomic_bert.LAYOUT.passive | {"mlp.dropout"},
)

FAMILY = Family("gte", "GTE v1.5, GTE multilingual", (LAYOUT,), "cls", rotary.surroundings, output="post_mlp_layernorm")
