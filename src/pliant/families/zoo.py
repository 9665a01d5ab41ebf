"""The named encoders: what each is made of, from its public configuration alone, without its weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import nn

from pliant.anatomy import Anatomy
from pliant.errors import MissingExtraError
from pliant.families.registry import describe

_APACHE, _MIT, _DINOV3 = "Apache-2.0", "MIT", "DINOv3 License"


@dataclass(frozen=True)
class Encoder:
    """One named encoder.

    Args:
        name: Its name on the Hugging Face hub.
        reads: What it reads.
        native: Its full-size input: the side of a square image in pixels, or the tokens of the longest text.
        pooling: The pooling that it was trained with.
        licence: The licence of its weights: an SPDX identifier where there is one.
        library: The package that has its classes.
        architecture: The class of its configuration in transformers, or the name of its architecture in timm.
        arguments: What its configuration says differently from the class's defaults.
        part: Which part of the named model it is; empty where it is the whole.
    """

    name: str
    reads: Literal["images", "text"]
    native: int
    pooling: str
    licence: str
    library: Literal["transformers", "timm"]
    architecture: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    part: str = ""

    def model(self) -> nn.Module:
        """Build the encoder on the meta device: all its modules, but no memory for its weights, and no download.

        It is of the class that `AutoModel` gives for its configuration, or timm's model without a classifier.

        Raises:
            MissingExtraError: It is an encoder of timm, which is not installed.
        """
        make = self._from_timm if self.library == "timm" else self._from_transformers
        with torch.device("meta"):
            return make().eval()

    def _from_transformers(self) -> Any:
        import transformers

        config = getattr(transformers, self.architecture)(**self.arguments)
        return transformers.AutoModel.from_config(config)

    def _from_timm(self) -> Any:
        try:
            import timm
        except ImportError as error:
            raise MissingExtraError("Describing an encoder of timm", "timm") from error
        return timm.create_model(self.architecture, pretrained=False, **self.arguments)

    def anatomy(self) -> Anatomy:
        """Return the encoder's anatomy, described once.

        Raises:
            MissingExtraError: It is an encoder of timm, which is not installed.
        """
        return self._anatomy

    @cached_property
    def _anatomy(self) -> Anatomy:
        return describe(self.model())


def _sizes(width: int, layers: int, heads: int, neurons: int) -> dict[str, Any]:
    return {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": neurons,
    }


def _dinov3(size: str, sizes: dict[str, Any], gated: bool = False, bias: bool = True) -> Encoder:
    arguments = {**sizes, "num_register_tokens": 4, "query_bias": bias, "value_bias": bias}
    if gated:
        arguments |= {"use_gated_mlp": True, "hidden_act": "silu"}
    name = f"facebook/dinov3-{size}-pretrain-lvd1689m"
    return Encoder(name, "images", 224, "cls", _DINOV3, "transformers", "DINOv3ViTConfig", arguments)


def _dinov2(size: str, width: int, layers: int, heads: int, gated: bool = False) -> Encoder:
    arguments = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "mlp_ratio": 4,
        "use_swiglu_ffn": gated,
        "patch_size": 14,
        "image_size": 518,
    }
    return Encoder(f"facebook/dinov2-{size}", "images", 518, "cls", _APACHE, "transformers", "Dinov2Config", arguments)


def _timm(architecture: str, weights: str) -> Encoder:
    # Their layers differ in names and packing from those that transformers has for the same networks, and a ranking
    # belongs to the modules of one of them: so they are described as timm builds them, or not at all.
    name = f"timm/{architecture}.{weights}"
    return Encoder(name, "images", 224, "cls", _APACHE, "timm", architecture, {"num_classes": 0})


def _siglip2(size: str, native: int, patch: int, sizes: dict[str, Any]) -> Encoder:
    # The checkpoints of fixed resolution have the classes of the first SigLIP.
    arguments = {**sizes, "image_size": native, "patch_size": patch}
    name = f"google/siglip2-{size}-patch{patch}-{native}"
    config = "SiglipVisionConfig"
    return Encoder(name, "images", native, "pooler", _APACHE, "transformers", config, arguments, "vision tower")


def _bert(name: str, pooling: str, licence: str, sizes: dict[str, Any], vocabulary: int = 30522) -> Encoder:
    arguments = {**sizes, "vocab_size": vocabulary}
    return Encoder(name, "text", 512, pooling, licence, "transformers", "BertConfig", arguments)


def _xlm_roberta(name: str, sizes: dict[str, Any]) -> Encoder:
    # Two of its positions are the padding's.
    arguments = {**sizes, "vocab_size": 250002, "max_position_embeddings": 514, "type_vocab_size": 1}
    return Encoder(name, "text", 512, "mean", _MIT, "transformers", "XLMRobertaConfig", arguments)


def _qwen3(size: str, longest: int, vocabulary: int, sizes: dict[str, Any]) -> Encoder:
    arguments = {
        **sizes,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": vocabulary,
        "max_position_embeddings": longest,
    }
    name = f"Qwen/Qwen3-Embedding-{size}"
    return Encoder(name, "text", longest, "last", _APACHE, "transformers", "Qwen3Config", arguments)


_SMALL, _BASE, _LARGE = _sizes(384, 12, 12, 1536), _sizes(768, 12, 12, 3072), _sizes(1024, 24, 16, 4096)
_VIT_SMALL = {**_SMALL, "num_attention_heads": 6}

_ENCODERS = (
    _dinov3("vits16", _VIT_SMALL),
    _dinov3("vits16plus", _VIT_SMALL, gated=True),
    _dinov3("vitb16", _BASE),
    _dinov3("vitl16", _LARGE),
    _dinov3("vith16plus", _sizes(1280, 32, 20, 5120), gated=True),
    _dinov3("vit7b16", _sizes(4096, 40, 32, 8192), gated=True, bias=False),
    _dinov2("small", 384, 12, 6),
    _dinov2("base", 768, 12, 12),
    _dinov2("large", 1024, 24, 16),
    _dinov2("giant", 1536, 40, 24, gated=True),
    Encoder("facebook/deit-base-patch16-224", "images", 224, "cls", _APACHE, "transformers", "ViTConfig"),
    _timm("deit3_small_patch16_224", "fb_in1k"),
    _timm("deit3_base_patch16_224", "fb_in1k"),
    _timm("deit3_large_patch16_224", "fb_in1k"),
    _timm("deit3_huge_patch14_224", "fb_in1k"),
    _timm("vit_small_patch16_224", "augreg_in21k"),
    _timm("vit_base_patch16_224", "augreg_in21k"),
    _timm("vit_large_patch16_224", "augreg_in21k"),
    _siglip2("base", 224, 16, _BASE),
    _siglip2("large", 256, 16, _LARGE),
    _siglip2("so400m", 224, 14, _sizes(1152, 27, 16, 4304)),
    _bert("sentence-transformers/all-MiniLM-L6-v2", "mean", _APACHE, {**_SMALL, "num_hidden_layers": 6}),
    _bert("BAAI/bge-small-en-v1.5", "cls", _MIT, _SMALL),
    _bert("BAAI/bge-base-en-v1.5", "cls", _MIT, _BASE),
    _bert("BAAI/bge-large-en-v1.5", "cls", _MIT, _LARGE),
    _bert("intfloat/e5-small-v2", "mean", _MIT, _SMALL),
    _bert("intfloat/e5-base-v2", "mean", _MIT, _BASE),
    _bert("intfloat/e5-large-v2", "mean", _MIT, _LARGE),
    _bert("intfloat/multilingual-e5-small", "mean", _MIT, _SMALL, vocabulary=250037),
    _xlm_roberta("intfloat/multilingual-e5-base", _BASE),
    _xlm_roberta("intfloat/multilingual-e5-large", _LARGE),
    _qwen3("0.6B", 32768, 151669, _sizes(1024, 28, 16, 3072)),
    _qwen3("4B", 40960, 151665, _sizes(2560, 36, 32, 9728)),
    _qwen3("8B", 40960, 151665, _sizes(4096, 36, 32, 12288)),
)

ZOO: Mapping[str, Encoder] = MappingProxyType({encoder.name: encoder for encoder in _ENCODERS})
"""The named encoders, by their names on the hub."""
