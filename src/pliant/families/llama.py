"""Llama and the decoders built like it, Mistral and Qwen2: so E5-Mistral and GTE-Qwen2.

Keys and values have fewer heads than queries, so a unit is a key/value group with its queries.
"""

from pliant.families import rotary
from pliant.families.layout import Family, Heads, Layout, Neurons
from pliant.families.parts import Gives

LAYOUT = Layout(
    layers=frozenset(
        {
            "transformers.models.llama.modeling_llama.LlamaDecoderLayer",
            "transformers.models.mistral.modeling_mistral.MistralDecoderLayer",
            "transformers.models.qwen2.modeling_qwen2.Qwen2DecoderLayer",
        }
    ),
    heads=Heads(
        name="self_attn",
        projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        output="self_attn.o_proj",
        head_dim="self_attn.head_dim",
        sublayer=Gives("self_attn", returns=2),
    ),
    neurons=Neurons("mlp", ("mlp.gate_proj", "mlp.up_proj"), "mlp.down_proj", sublayer=Gives("mlp")),
    passive=frozenset({"input_layernorm", "post_attention_layernorm", "mlp.act_fn"}),
    # The length of a text so far is that of the first layer's keys.
    notes=("Give texts whole: sizes without the first layer's attention can't go on from a cache of keys and values.",),
)

FAMILY = Family("llama", "Llama, Mistral, Qwen2", (LAYOUT,), "last", rotary.surroundings, output="norm")
