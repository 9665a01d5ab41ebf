"""What a model is timed with: inputs of one length, and an order of its units where it has none."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from pliant.anatomy import Anatomy
from pliant.batches import Batch, called, device_of, to_device
from pliant.checkpoint import Checkpoint
from pliant.data import ImageBatches, TextBatches
from pliant.errors import InputError, MissingExtraError
from pliant.pooling import token_outputs
from pliant.ranking import Ranking, fingerprint

if TYPE_CHECKING:
    from PIL.Image import Image

_WORDS = "a few words that every tokenizer knows one by one "


def inputs_of(
    checkpoint: Checkpoint, batch_sizes: Sequence[int], tokens: int, image_size: int | None = None
) -> list[Batch]:
    """Return one batch for each batch size, on the model's device: texts of `tokens` tokens, or grey images.

    Args:
        checkpoint: The model, whose own tokenizer or image processor makes the inputs.
        batch_sizes: How many inputs each batch has.
        tokens: Length of a text, with the special tokens; images have their own.
        image_size: Height and width of images, in pixels; by default the processor's.

    Raises:
        InputError: The model takes no texts of that length, or has no tokenizer or image processor.
        MissingExtraError: Pillow is not installed, which images need.
    """
    processor, device = checkpoint.preprocessor(), device_of(checkpoint.model)
    if checkpoint.inputs == "text":
        if tokens > checkpoint.max_tokens:
            raise InputError(f"{tokens} tokens are too many for {checkpoint.name}: {checkpoint.max_tokens} at most.")
        made = [TextBatches([_WORDS * tokens] * count, processor, count, tokens)[0] for count in batch_sizes]
        if (length := made[0]["input_ids"].shape[1]) != tokens:
            raise InputError(f"The tokenizer of {checkpoint.name} makes {length} tokens, not {tokens}. Ask for others.")
    else:
        grey = _grey_image()
        made = [ImageBatches([grey] * n, processor, n, image_size=image_size)[0] for n in batch_sizes]
    return [to_device(batch, device) for batch in made]


def _grey_image() -> "Image":
    try:
        from PIL.Image import new
    except ImportError as error:
        raise MissingExtraError("Timing a model of images", "eval") from error
    return new("RGB", (256, 256), (128, 128, 128))


def length_of(model: nn.Module, batch: Batch) -> int | None:
    """Return how many tokens the model makes of each input in a batch; None where it gives embeddings alone.

    Raises:
        InputError: The model can't take the batch.
    """
    with torch.inference_mode():
        outputs = token_outputs(called(model, batch))
    return outputs.shape[1] if outputs.dim() == 3 else None


def unranked(model: nn.Module, anatomy: Anatomy) -> Ranking:
    """Return a random order of a model's units (seed 0): all sites lose about the same share, and nothing stays.

    Speed depends on how many units a site keeps, not on which.
    """
    scores = torch.rand(anatomy.units, generator=torch.Generator().manual_seed(0))
    rest = tuple(torch.zeros(site.units * site.width) for site in anatomy.sites)
    return Ranking(scores, rest, "zero", fingerprint(model, anatomy), {"ranker": "random"})
