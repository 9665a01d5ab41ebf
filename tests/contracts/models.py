"""Tiny random models, one for each layout that a family knows, with inputs that suit them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    CamembertConfig,
    CamembertModel,
    DeiTConfig,
    DeiTModel,
    Dinov2Config,
    Dinov2Model,
    ElectraConfig,
    ElectraModel,
    PreTrainedModel,
    RobertaConfig,
    RobertaModel,
    ViTConfig,
    ViTModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

Side = Literal["left", "right"]

WIDTH, HEADS, LAYERS, NEURONS, WORDS = 32, 4, 2, 44, 60
"""44 neurons are no multiple of 8, so that aligned widths end in a shorter step."""

_TEXT = dict(
    vocab_size=WORDS,
    hidden_size=WIDTH,
    num_hidden_layers=LAYERS,
    num_attention_heads=HEADS,
    intermediate_size=NEURONS,
    max_position_embeddings=40,
)
_IMAGE = dict(
    hidden_size=WIDTH,
    num_hidden_layers=LAYERS,
    num_attention_heads=HEADS,
    intermediate_size=NEURONS,
    image_size=24,
    patch_size=8,
)
_DINO = dict(
    hidden_size=WIDTH,
    num_hidden_layers=LAYERS,
    num_attention_heads=HEADS,
    mlp_ratio=2,
    image_size=28,
    patch_size=7,
    layerscale_value=0.7,
)


@dataclass(frozen=True)
class Specimen:
    """One row of the table: how to make a model and its inputs."""

    name: str
    model_class: type[PreTrainedModel]
    config_class: type[Any]
    options: dict[str, Any]
    family: str
    sizes: tuple[tuple[int, int], ...] = ()
    padding_word: int = 0
    counts_positions_itself: bool = False
    interpolates: bool = False

    @property
    def reads_text(self) -> bool:
        return not self.sizes

    def model(self, seed: int = 0, attention: str = "sdpa") -> Any:
        """The same seed gives the same weights; none of them is zero or one just by initialisation."""
        config = self.config_class(**self.options, attn_implementation=attention)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.model_class(config)
        return randomised_(model, seed).eval()

    def batch(self, seed: int = 0, count: int = 3) -> dict[str, Tensor]:
        """Text of several odd lengths, padded on the right, or images of the first size."""
        if self.reads_text:
            lengths = [7, 5, 9, 1, 3][:count]
            return self.padded(sentences(lengths, seed, first=self.padding_word + 1))
        return self.images(self.sizes[0], seed, count)

    def batches(self, number: int = 6, seed: int = 0) -> list[dict[str, Tensor]]:
        return [self.batch(100 * seed + index) for index in range(number)]

    def images(self, size: tuple[int, int], seed: int = 0, count: int = 3) -> dict[str, Any]:
        pixels = torch.randn(count, 3, *size, generator=torch.Generator().manual_seed(seed))
        resized: dict[str, Any] = {"pixel_values": pixels}
        if self.interpolates and size != self.sizes[0]:
            resized["interpolate_pos_encoding"] = True
        return resized

    def padded(self, texts: Sequence[Tensor], length: int = 0, side: Side = "right") -> dict[str, Tensor]:
        """Texts in one batch of at least `length` tokens; explicit positions where the model can't find them itself."""
        longest = max(length, *(len(text) for text in texts))
        words = torch.full((len(texts), longest), self.padding_word)
        mask = torch.zeros_like(words)
        positions = torch.zeros_like(words)
        for row, text in enumerate(texts):
            start = 0 if side == "right" else longest - len(text)
            words[row, start : start + len(text)] = text
            mask[row, start : start + len(text)] = 1
            positions[row, start : start + len(text)] = torch.arange(len(text))
        batch = {"input_ids": words, "attention_mask": mask}
        return batch if self.counts_positions_itself else {**batch, "position_ids": positions}


def sentences(lengths: Iterable[int], seed: int, first: int = 1) -> list[Tensor]:
    """Random words, none below `first`, so that none is padding."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(first, WORDS, (length,), generator=generator) for length in lengths]


@torch.no_grad()
def randomised_(model: nn.Module, seed: int) -> nn.Module:
    """Give every parameter random values, in place: matrices keep the scale of their input, norms stay near one."""
    generator = torch.Generator().manual_seed(seed + 1)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        matrix = parameter.dim() >= 2 and "embeddings" not in name.rsplit(".", 2)[-2]
        if matrix and "token" not in name:
            parameter.copy_(noise / parameter[0].numel() ** 0.5)
        elif ("norm" in name.lower() and name.endswith("weight")) or "lambda" in name:
            parameter.copy_(0.8 + 0.2 * noise)
        else:
            parameter.copy_(0.4 * noise)
    return model


_ROBERTA = {**_TEXT, "pad_token_id": 1}

SPECIMENS = (
    Specimen("bert", BertModel, BertConfig, _TEXT, "bert"),
    Specimen("bert-classifier", BertForSequenceClassification, BertConfig, {**_TEXT, "num_labels": 3}, "bert"),
    Specimen("roberta", RobertaModel, RobertaConfig, _ROBERTA, "bert", (), 1, True),
    Specimen("xlm-roberta", XLMRobertaModel, XLMRobertaConfig, _ROBERTA, "bert", (), 1, True),
    Specimen("camembert", CamembertModel, CamembertConfig, _ROBERTA, "bert", (), 1, True),
    Specimen("electra", ElectraModel, ElectraConfig, {**_TEXT, "embedding_size": 16}, "bert"),
    Specimen("vit", ViTModel, ViTConfig, _IMAGE, "vit", ((24, 24), (16, 32), (8, 8)), interpolates=True),
    Specimen(
        "vit-no-qkv-bias",
        ViTModel,
        ViTConfig,
        {**_IMAGE, "qkv_bias": False},
        "vit",
        ((24, 24), (32, 16)),
        interpolates=True,
    ),
    Specimen("deit", DeiTModel, DeiTConfig, _IMAGE, "vit", ((24, 24), (16, 32)), interpolates=True),
    Specimen("dinov2", Dinov2Model, Dinov2Config, _DINO, "dinov2", ((28, 28), (14, 35), (7, 7))),
    Specimen(
        "dinov2-gated", Dinov2Model, Dinov2Config, {**_DINO, "use_swiglu_ffn": True}, "dinov2", ((28, 28), (21, 14))
    ),
)

TEXT = tuple(specimen for specimen in SPECIMENS if specimen.reads_text)
IMAGES = tuple(specimen for specimen in SPECIMENS if not specimen.reads_text)


def by_name(name: str) -> Specimen:
    return next(specimen for specimen in SPECIMENS if specimen.name == name)


def output_of(outputs: Any) -> Tensor:
    """The tensor to compare: token outputs, or a head's logits."""
    return outputs["last_hidden_state"] if "last_hidden_state" in outputs else outputs["logits"]


def spread(outputs: Any, batch: Any) -> Tensor:
    """An objective that every model has: how far its outputs lie from zero."""
    return output_of(outputs).square().mean()
