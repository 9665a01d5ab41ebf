"""Batches of texts and images for a model, made when they are asked for."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pliant.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from PIL.Image import Image

# Batches among which texts are sorted by length: enough to save most padding, few enough to stay well mixed.
_BUCKET_BATCHES = 16


def check_enough(count: int, batch_size: int, what: str) -> None:
    """Refuse fewer inputs than one batch.

    Args:
        count: How many there are.
        batch_size: How many one batch needs.
        what: What they are, in the plural, as the user would say ("texts").

    Raises:
        InputError: `count` is below `batch_size`.
    """
    if count == 0:
        raise InputError(f"There are no {what}. Give at least {batch_size}.")
    if count < batch_size:
        raise InputError(
            f"{count} {what} do not fill one batch of {batch_size}. Give at least {batch_size} {what}, "
            f"or a batch size of at most {count}."
        )


class TextBatches:
    """Tokenized batches of texts, made when asked for and the same each time they are gone through.

    Args:
        texts: The texts; all of them stay in memory, their tokens don't.
        tokenizer: A Hugging Face tokenizer.
        batch_size: Texts in a batch.
        max_tokens: Longer texts are cut off; batches are padded to their longest text.
        drop_last: Leave out a last batch that isn't full.
        bucket: Batch texts of similar length, which saves padding but changes their order: among the texts of every
            16 batches, sorted by length, batches then shuffled.
        noise: Share of tokens, in every second text or so, that are replaced by random ones of the vocabulary. For
            calibration: it widens the range of words that a ranking has seen.
        seed: Of the shuffling and the noise.
        prompts: What is put before the texts, in turn: the first before the first text, the second before the second,
            and so on around. They count in `max_tokens`, and noise leaves them alone.

    Raises:
        InputError: No texts, fewer than a batch with `drop_last`, a size below 1, a noise outside [0, 1], or a
            tokenizer that can't pad.

    Example:
        >>> import torch
        >>> def first_letters(texts, **options):
        ...     return {"input_ids": torch.tensor([[ord(text[0])] for text in texts])}
        >>> batches = TextBatches(["a", "b", "c"], first_letters, batch_size=2)
        >>> [batch["input_ids"].tolist() for batch in batches]
        [[[97], [98]], [[99]]]
    """

    def __init__(
        self,
        texts: Sequence[str],
        tokenizer: Callable[..., Mapping[str, Any]],
        batch_size: int = 32,
        max_tokens: int = 128,
        *,
        drop_last: bool = False,
        bucket: bool = False,
        noise: float = 0.0,
        seed: int = 0,
        prompts: Sequence[str] = (),
    ) -> None:
        """Plan the batches; tokenize nothing yet."""
        if isinstance(prompts, str):
            raise InputError(f"One prompt, {prompts!r:.60}, where a list of them is needed. Put it into a list.")
        if not 0 <= noise <= 1:
            raise InputError(f"noise is {noise}; it must be a share, from 0 to 1.")
        if isinstance(texts, str):
            raise InputError(f"One string, {texts!r:.60}, where a list of texts is needed. Put it into a list.")
        _check_positive(max_tokens, "max_tokens")
        # Only tokenizers that say that they have none are refused: other callables may pad in their own way.
        if getattr(tokenizer, "pad_token", "") is None:
            raise InputError(
                "The tokenizer has no padding token, so texts of different lengths make no batch. "
                "Set one first: tokenizer.pad_token = tokenizer.eos_token."
            )
        self._texts = texts
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._noise, self._seed = noise, seed
        self._prompts = tuple(prompts) or ("",)
        lengths = [len(text) for text in texts] if bucket else None
        self._batches = _partition(len(texts), batch_size, "texts", drop_last, lengths, seed)

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self._batches)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Go through the batches."""
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        """Return one batch: the tokenizer's tensors `[batch, tokens]` by name."""
        prompts = [self._prompts[position % len(self._prompts)] for position in self._batches[index]]
        chosen = [self._texts[position] for position in self._batches[index]]
        batch = self._tokens([prompt + text for prompt, text in zip(prompts, chosen, strict=True)])
        if self._noise:
            generator = torch.Generator().manual_seed((self._seed * 1_000_003 + index) % 2**63)
            noisy = _with_noise(batch["input_ids"], self._tokenizer, self._noise, generator)
            batch["input_ids"] = torch.where(self._of_prompts(batch, prompts), batch["input_ids"], noisy)
        return batch

    def _of_prompts(self, batch: dict[str, Tensor], prompts: list[str]) -> Tensor:
        """Say which tokens of a batch are those of its texts' prompts, bool `[batch, tokens]`."""
        lengths = {prompt: self._length(prompt) for prompt in set(prompts)}
        # Padding may come before the text.
        places = batch.get("attention_mask", torch.ones_like(batch["input_ids"])).cumsum(dim=1)
        return places <= torch.tensor([lengths[prompt] for prompt in prompts]).unsqueeze(1)

    def _tokens(self, texts: list[str]) -> dict[str, Tensor]:
        options = {"padding": "longest", "truncation": True, "max_length": self._max_tokens, "return_tensors": "pt"}
        return dict(self._tokenizer(texts, **options))

    def _length(self, prompt: str) -> int:
        """Return how many tokens a prompt has, with the special ones before it."""
        if not prompt:
            return 0
        ids: list[int] = self._tokens([prompt])["input_ids"][0].tolist()
        special = set(getattr(self._tokenizer, "all_special_ids", ()))
        return len(ids) - (len(ids) > 1 and ids[-1] in special)


def _with_noise(ids: Tensor, tokenizer: Any, share: float, generator: torch.Generator) -> Tensor:
    """Return token ids `[batch, tokens]` of which some are random, in half of the rows; special tokens stay."""
    special = torch.tensor(sorted(tokenizer.all_special_ids))
    random_ids = torch.randint(len(tokenizer), ids.shape, generator=generator)
    noisy_rows = torch.rand(len(ids), 1, generator=generator) < 0.5
    replaced = noisy_rows & (torch.rand(ids.shape, generator=generator) < share)
    replaced &= ~(torch.isin(ids, special) | torch.isin(random_ids, special))
    return torch.where(replaced, random_ids, ids)


class ImageBatches:
    """Batches of images, opened when asked for and the same each time they are gone through.

    Images are turned upright as their camera says and made RGB; what is transparent becomes white.

    Args:
        images: The image files, or images of Pillow.
        processor: A Hugging Face image processor.
        batch_size: Images in a batch.
        image_size: Height and width that the model gets, in pixels, in place of the processor's.
        drop_last: Leave out a last batch that isn't full.

    Raises:
        InputError: No images, fewer than a batch with `drop_last`, a size below 1, a processor whose size can't be
            changed, or, from a batch, a damaged image.
        MissingExtraError: Pillow is not installed.
    """

    def __init__(
        self,
        images: "Sequence[str | Path | Image]",
        processor: Callable[..., Mapping[str, Any]],
        batch_size: int = 16,
        *,
        image_size: int | None = None,
        drop_last: bool = False,
    ) -> None:
        """Plan the batches; open nothing yet."""
        if isinstance(images, (str, Path)):
            raise InputError(f"One path, {str(images)!r}, where a list is needed. For a folder, pass list(images(it)).")
        self._images = images
        self._processor = processor
        self._sizes = {} if image_size is None else _sizes(processor, image_size)
        self._batches = _partition(len(images), batch_size, "images", drop_last)

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self._batches)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Go through the batches."""
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        """Return one batch: the processor's tensors by name, `pixel_values` `[batch, 3, height, width]` above all."""
        opened = [open_rgb(self._images[position]) for position in self._batches[index]]
        return dict(self._processor(images=opened, return_tensors="pt", **self._sizes))


def _sizes(processor: Any, image_size: int) -> dict[str, dict[str, int]]:
    """Return what a processor has to be called with for images of another size, in the proportions of its own."""
    _check_positive(image_size, "image_size")
    names = [name for name in ("size", "crop_size") if getattr(processor, name, None)]
    own = {name: {key: side for key, side in dict(getattr(processor, name)).items() if side} for name in names}
    crops = getattr(processor, "do_center_crop", False) and "crop_size" in own
    final = own.get("crop_size" if crops else "size", {})
    side = final.get("height", final.get("shortest_edge"))
    if side is None:
        raise InputError(f"A {type(processor).__name__} has no image size that can be changed. Leave it as it is.")
    return {name: {key: round(value * image_size / side) for key, value in own[name].items()} for name in names}


def open_rgb(source: "str | Path | Image") -> "Image":
    """Return an image (of an animation, its first), upright, in RGB, on white where it is transparent.

    Args:
        source: The image file, or an image of Pillow.

    Raises:
        InputError: The file can't be read, or is no image that Pillow knows.
        MissingExtraError: Pillow is not installed.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise MissingExtraError("Reading images", "eval") from error
    try:
        with nullcontext(source) if isinstance(source, Image.Image) else Image.open(source) as opened:
            image = ImageOps.exif_transpose(opened)
            if image.mode.startswith("I;16"):
                # Pillow would clip 16-bit grey to its lowest 256 values.
                image = image.point(lambda value: value / 256).convert("L")
            if not image.has_transparency_data:
                return image.convert("RGB")
            image = image.convert("RGBA")
            return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    # What Pillow raises for damaged files, by format.
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise InputError(f"{source} can't be read as an image: {error}. Repair it or take it out.") from error


def _partition(
    count: int, batch_size: int, what: str, drop_last: bool, lengths: list[int] | None = None, seed: int = 0
) -> list[list[int]]:
    """Part the positions of `count` inputs into batches, bucketed when there are `lengths`."""
    _check_positive(batch_size, "batch_size")
    check_enough(count, batch_size if drop_last else 1, what)
    if drop_last:
        count -= count % batch_size
    order = (
        list(range(count)) if lengths is None else _sorted_within_windows(lengths[:count], batch_size * _BUCKET_BATCHES)
    )
    batches = [order[start : start + batch_size] for start in range(0, count, batch_size)]
    return batches if lengths is None else _shuffled_within_windows(batches, seed)


def _sorted_within_windows(lengths: list[int], window: int) -> list[int]:
    starts = range(0, len(lengths), window)
    return [
        position
        for start in starts
        for position in sorted(range(start, min(start + window, len(lengths))), key=lengths.__getitem__)
    ]


def _shuffled_within_windows(batches: list[list[int]], seed: int) -> list[list[int]]:
    generator = random.Random(seed)
    shuffled: list[list[int]] = []
    for start in range(0, len(batches), _BUCKET_BATCHES):
        window = batches[start : start + _BUCKET_BATCHES]
        shuffled += generator.sample(window, len(window))
    return shuffled


def _check_positive(value: int, name: str) -> None:
    if value < 1:
        raise InputError(f"{name} is {value}; it must be 1 or more.")
