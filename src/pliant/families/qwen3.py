"""Qwen3, so Qwen3-Embedding: Llama's layout, and norms of each head's queries and keys."""

from dataclasses import replace

from pliant.families import llama, rotary
from pliant.families.layout import Family

HEAD_NORMS = frozenset({"self_attn.q_norm", "self_attn.k_norm"})

LAYOUT = replace(
    llama.LAYOUT,
    layers=frozenset({"transformers.models.qwen3.modeling_qwen3.Qwen3DecoderLayer"}),
    passive=llama.LAYOUT.passive | HEAD_NORMS,
)

FAMILY = Family("qwen3", "Qwen3-Embedding 0.6B, 4B and 8B", (LAYOUT,), "last", rotary.surroundings, output="norm")
