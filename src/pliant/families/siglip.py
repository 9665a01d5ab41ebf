"""Hugging Face SigLIP and SigLIP 2, each tower by itself: CLIP's layout; the attention that pools stays whole."""

from dataclasses import replace

from pliant.families import clip
from pliant.families.layout import Family

LAYOUT = replace(
    clip.LAYOUT,
    layers=frozenset(
        {
            "transformers.models.siglip.modeling_siglip.SiglipEncoderLayer",
            "transformers.models.siglip2.modeling_siglip2.Siglip2EncoderLayer",
        }
    ),
)

FAMILY = Family("siglip", "SigLIP's and SigLIP 2's vision and text towers", (LAYOUT,), "pooler", clip.surroundings)
