"""Tiny checkpoints with tokenizer or image processor, and inputs for them, as files."""

import json
import random
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedModel, PreTrainedTokenizerFast, ViTConfig, ViTModel

WORDS = tuple("the a cat dog sat ran on mat tree big small red blue under over house bird fish saw ate".split())
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCABULARY = len(_SPECIAL) + len(WORDS)
SIZES: dict[str, Any] = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    # Large enough for removed units to be missed.
    initializer_range=0.3,
)
TEXT_CONFIG = BertConfig(vocab_size=VOCABULARY, max_position_embeddings=40, **SIZES)


def save(model: PreTrainedModel, directory: Path) -> Path:
    model.eval().save_pretrained(directory)
    return directory


def save_tokenizer(directory: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate((*_SPECIAL, *WORDS))}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair=None, special_tokens=ends)
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), _SPECIAL, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(directory)


def text_model(directory: Path, seed: int = 0, config: BertConfig = TEXT_CONFIG) -> Path:
    torch.manual_seed(seed)
    save(BertModel(config), directory)
    save_tokenizer(directory)
    return directory


def image_model(directory: Path, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    save(ViTModel(ViTConfig(image_size=24, patch_size=8, **SIZES), add_pooling_layer=False), directory)
    processor = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": 24, "width": 24},
        "resample": 2,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    (directory / "preprocessor_config.json").write_text(json.dumps(processor))
    return directory


def sentences(count: int, seed: int = 0) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(3, 9))) for _ in range(count)]


def images(folder: Path, count: int = 12) -> Path:
    generator = torch.Generator().manual_seed(0)
    for index in range(count):
        pixels = torch.randint(0, 256, (20, 30, 3), generator=generator, dtype=torch.uint8)
        file = folder / ("more" if index % 3 else "") / f"{index}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.numpy()).save(file)
    return folder


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder: files with their bytes, folders with none."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def edit_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **changes}))


def inputs(count: int = 3) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(len(_SPECIAL), VOCABULARY, (count, 9), generator=generator)
    mask = torch.ones_like(ids)
    mask[0, 5:] = 0
    return {"input_ids": ids, "attention_mask": mask}
