"""One specimen: how to make a tiny random model of one layout, and inputs that suit it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

Side = Literal["left", "right"]

WIDTH, HEADS, LAYERS, NEURONS, WORDS = 32, 4, 2, 44, 60
"""44 neurons are no multiple of 8, so that aligned widths end in a shorter step."""


@dataclass(frozen=True)
class Specimen:
    """One row of the table: how to make a model and its inputs."""

    name: str
    model_class: type[Any]
    config_class: type[Any]
    options: dict[str, Any]
    family: str
    sizes: tuple[tuple[int, int], ...] = ()
    padding_word: int = 0
    counts_positions_itself: bool = False
    interpolates: bool = False
    groups: int = HEADS
    head_dim: int = WIDTH // HEADS
    rotary: bool = False
    kinds: tuple[str, ...] = ("heads", "neurons")

    @property
    def reads_text(self) -> bool:
        return not self.sizes

    def model(self, seed: int = 0, attention: str = "sdpa") -> Any:
        """The same seed gives the same weights; none of them is zero or one just by initialisation."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.build(attention)
        return randomised_(model, seed).eval()

    def build(self, attention: str) -> Any:
        return self.model_class(self.config_class(**{"attn_implementation": attention, **self.options}))

    def call(self, model: nn.Module, batch: Any) -> Any:
        """Everything that a model makes of a batch, by name."""
        return model(**batch)

    def tokens(self, model: nn.Module, batch: Any) -> int:
        """How many tokens a model makes of an image."""
        return model(**batch).last_hidden_state.shape[1]

    @property
    def remembers_its_making(self) -> bool:
        """Whether a model in memory knows how it can be made again."""
        return True

    def save(self, model: Any, directory: Path) -> None:
        """As the model's own library does."""
        model.save_pretrained(directory)

    def load(self, directory: Path) -> Any:
        """As the model's own library does."""
        return self.model_class.from_pretrained(directory).eval()

    def batch(self, seed: int = 0, count: int = 3) -> Any:
        """Text of several odd lengths, padded on the right, or images of the first size."""
        if self.reads_text:
            lengths = [7, 5, 9, 1, 3][:count]
            return self.padded(sentences(lengths, seed, first=self.padding_word + 1))
        return self.images(self.sizes[0], seed, count)

    def batches(self, number: int = 6, seed: int = 0) -> list[Any]:
        return [self.batch(100 * seed + index) for index in range(number)]

    def images(self, size: tuple[int, int], seed: int = 0, count: int = 3) -> Any:
        pixels = torch.randn(count, 3, *size, generator=torch.Generator().manual_seed(seed))
        resized: dict[str, Any] = {"pixel_values": pixels}
        if self.interpolates and size != self.sizes[0]:
            resized["interpolate_pos_encoding"] = True
        return resized

    def unpadded(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        """The images of a batch without padding, which those of one size don't have."""
        return [batch]

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


class PatchSpecimen(Specimen):
    """A model that reads images cut into patches, of several shapes in one batch."""

    def images(self, size: tuple[int, int], seed: int = 0, count: int = 3, patches: int = 0) -> dict[str, Any]:
        """Every second image is one row of patches lower; padded to at least `patches`, as processors do."""
        side = self.options["patch_size"]
        rows, columns = size[0] // side, size[1] // side
        shapes = torch.tensor([[max(1, rows - index % 2), columns] for index in range(count)])
        held = max(rows * columns, patches)
        mask = (torch.arange(held) < shapes.prod(dim=1, keepdim=True)).long()
        values = torch.randn(count, rows * columns, 3 * side**2, generator=torch.Generator().manual_seed(seed))
        padded = nn.functional.pad(values, (0, 0, 0, held - rows * columns)) * mask.unsqueeze(-1)
        return {"pixel_values": padded, "pixel_attention_mask": mask, "spatial_shapes": shapes}

    def unpadded(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        """The images of a batch one by one, without any padding."""
        alone = []
        for row, patches in enumerate(batch["spatial_shapes"].prod(dim=1).tolist()):
            image = {name: values[row : row + 1] for name, values in batch.items()}
            lengths = {name: image[name][:, :patches] for name in ("pixel_values", "pixel_attention_mask")}
            alone.append({**image, **lengths})
        return alone


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
        matrix = parameter.dim() >= 2 and "embeddings" not in name.rpartition(".")[0].rpartition(".")[2]
        if matrix and "token" not in name:
            parameter.copy_(noise / parameter[0].numel() ** 0.5)
        elif ("norm" in name.lower() and name.endswith("weight")) or "lambda" in name:
            parameter.copy_(0.8 + 0.2 * noise)
        else:
            parameter.copy_(0.4 * noise)
    return model


def in_bfloat16(batch: Any) -> Any:
    """The same inputs, those that are no words in bfloat16."""
    if isinstance(batch, Tensor):
        return batch.bfloat16()
    return {name: value.bfloat16() if value.is_floating_point() else value for name, value in batch.items()}


def output_of(outputs: Any) -> Tensor:
    """The tensor to compare: token outputs, or a head's logits."""
    if isinstance(outputs, Tensor):
        return outputs
    return outputs["last_hidden_state"] if "last_hidden_state" in outputs else outputs["logits"]


def spread(outputs: Any, batch: Any) -> Tensor:
    """An objective that every model has: how far its outputs lie from zero."""
    return output_of(outputs).square().mean()
