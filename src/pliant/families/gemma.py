"""Gemma and Gemma 2, so BGE-multilingual-Gemma2: Llama's layout, the later one with norms behind its sublayers too."""

from dataclasses import replace

from pliant.families import llama, rotary
from pliant.families.layout import Family

FIRST = replace(llama.LAYOUT, layers=frozenset({"transformers.models.gemma.modeling_gemma.GemmaDecoderLayer"}))

SECOND = replace(
    FIRST,
    layers=frozenset({"transformers.models.gemma2.modeling_gemma2.Gemma2DecoderLayer"}),
    passive=FIRST.passive | {"pre_feedforward_layernorm", "post_feedforward_layernorm"},
)

FAMILY = Family("gemma", "Gemma, Gemma 2", (FIRST, SECOND), "last", rotary.surroundings, output="norm")
