"""Gemma 3, so EmbeddingGemma, which looks both ways: Gemma 2's layout, and norms of each head's queries and keys."""

from dataclasses import replace

from pliant.families import gemma, qwen3, rotary
from pliant.families.layout import Family

LAYOUT = replace(
    gemma.SECOND,
    layers=frozenset({"transformers.models.gemma3.modeling_gemma3.Gemma3DecoderLayer"}),
    passive=gemma.SECOND.passive | qwen3.HEAD_NORMS,
)

FAMILY = Family("gemma3", "EmbeddingGemma, Gemma 3", (LAYOUT,), "mean", rotary.surroundings, output="norm")
