"""Batches of texts and images."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pliant.errors import InputError, MissingExtraError
from pliant.loaders import ImageBatches, TextBatches, check_enough, open_rgb

pil = pytest.importorskip("PIL.Image")


class Counter:
    """A tokenizer whose tokens are word lengths, and that remembers what it was asked."""

    pad_token: str | None = "[PAD]"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: list[str], **options: Any) -> dict[str, Tensor]:
        assert options == {"padding": "longest", "truncation": True, "max_length": 6, "return_tensors": "pt"}
        self.calls.append(texts)
        rows = [[len(word) for word in text.split()][:6] for text in texts]
        width = max(map(len, rows))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        return {"input_ids": ids, "attention_mask": (ids > 0).long()}


def words(count: int) -> str:
    return " ".join(["word"] * count)


def batches(texts: Sequence[str], batch_size: int, **options: Any) -> tuple[TextBatches, Counter]:
    tokenizer = Counter()
    return TextBatches(texts, tokenizer, batch_size, 6, **options), tokenizer


def test_text_batches_are_made_lazily_in_order_and_again() -> None:
    made, tokenizer = batches(["a", "b c", "d e f", "g", words(9)], 2)
    assert len(made) == 3
    assert tokenizer.calls == []
    first = list(made)
    assert tokenizer.calls == [["a", "b c"], ["d e f", "g"], [words(9)]]
    assert [tuple(batch["input_ids"].shape) for batch in first] == [(2, 2), (2, 3), (1, 6)]
    for one, other in zip(first, made, strict=True):
        assert type(one) is dict
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert torch.equal(made[-1]["input_ids"], first[2]["input_ids"])
    with pytest.raises(IndexError):
        made[3]


def test_a_partial_batch_is_left_out_on_request() -> None:
    made, tokenizer = batches(["a", "b", "c", "d", "e"], 2, drop_last=True)
    list(made)
    assert len(made) == 2
    assert tokenizer.calls == [["a", "b"], ["c", "d"]]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=200), st.integers(1, 5), st.integers(0, 9))
def test_bucketing_keeps_every_text_and_repeats(lengths: list[int], batch_size: int, seed: int) -> None:
    texts = [f"{words(length)} {position}" for position, length in enumerate(lengths)]
    made, tokenizer = batches(texts, batch_size, bucket=True, seed=seed)
    list(made)
    seen = [text for call in tokenizer.calls for text in call]
    assert sorted(seen) == sorted(texts)
    window = 16 * batch_size
    for start in range(0, len(texts), window):
        assert set(seen[start : start + window]) == set(texts[start : start + window])
    again, other = batches(texts, batch_size, bucket=True, seed=seed)
    list(again)
    assert other.calls == tokenizer.calls


def test_bucketing_saves_padding_and_shuffles_batches() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 30, (256,), generator=generator).tolist()
    texts = [words(length) for length in lengths]

    def longest(bucket: bool) -> list[int]:
        made, tokenizer = batches(texts, 8, bucket=bucket)
        list(made)
        return [max(len(text.split()) for text in call) for call in tokenizer.calls]

    assert 8 * sum(longest(True)) < 1.1 * sum(lengths)
    assert 8 * sum(longest(False)) > 1.5 * sum(lengths)
    assert longest(True)[:16] != sorted(longest(True)[:16])


def test_bucketing_with_drop_last_drops_no_long_text_on_purpose() -> None:
    texts = [words(30), *(words(2) for _ in range(8))]
    made, tokenizer = batches(texts, 4, bucket=True, drop_last=True)
    list(made)
    assert len(made) == 2
    assert any(words(30) in call for call in tokenizer.calls)


@pytest.mark.parametrize(
    ("texts", "options", "needles"),
    [
        ([], {}, "no texts"),
        ("one text", {}, "list"),
        (["a"], {"batch_size": 0}, "batch_size is 0"),
        (["a"], {"max_tokens": 0}, "max_tokens is 0"),
        (["a", "b"], {"batch_size": 3, "drop_last": True}, "2 texts do not fill one batch of 3"),
    ],
)
def test_text_batches_refuse(texts: Sequence[str], options: dict[str, Any], needles: str) -> None:
    with pytest.raises(InputError, match=needles):
        TextBatches(texts, Counter(), **options)


def test_a_tokenizer_without_padding_token_is_refused() -> None:
    tokenizer = Counter()
    tokenizer.pad_token = None
    with pytest.raises(InputError, match="eos_token"):
        TextBatches(["a"], tokenizer)


def test_text_batches_with_a_real_tokenizer() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"[UNK]": 0, "[PAD]": 1, "blue": 2, "fish": 3}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]", pad_token="[PAD]")
    (batch,) = TextBatches(["blue fish fish fish", "fish"], tokenizer, max_tokens=3)
    assert batch["input_ids"].tolist() == [[2, 3, 3], [3, 1, 1]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]


def test_enough_inputs_pass_and_fewer_name_both_numbers() -> None:
    check_enough(4, 4, "images")
    with pytest.raises(InputError, match=r"3 images .* batch of 4\. .* at most 3"):
        check_enough(3, 4, "images")


def processor(images: list[Any], return_tensors: str) -> dict[str, Tensor]:
    assert return_tensors == "pt"
    return {"pixel_values": torch.tensor([image.getpixel((0, 0)) for image in images])}


def test_image_batches_are_rgb_on_white_and_again(tmp_path: Path) -> None:
    pil.new("RGBA", (2, 2), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    pil.new("RGBA", (2, 2), (0, 0, 0, 255)).save(tmp_path / "solid.png")
    pil.new("LA", (2, 2), (0, 0)).save(tmp_path / "grey.png")
    paths = [tmp_path / name for name in ("clear.png", "solid.png", "grey.png")]
    made = ImageBatches(paths, processor, batch_size=2)
    assert len(made) == 2
    for _ in range(2):
        assert [batch["pixel_values"].tolist() for batch in made] == [[[255] * 3, [0] * 3], [[255] * 3]]
    assert len(ImageBatches(paths, processor, batch_size=2, drop_last=True)) == 1


def test_palette_transparency_sixteen_bits_and_orientation(tmp_path: Path) -> None:
    palette = pil.new("P", (1, 1), 0)
    palette.putpalette([10, 20, 30])
    palette.save(tmp_path / "p.gif", transparency=0)
    assert open_rgb(tmp_path / "p.gif").getpixel((0, 0)) == (255, 255, 255)
    pil.new("I;16", (1, 1), 128 * 256).save(tmp_path / "deep.png")
    assert open_rgb(tmp_path / "deep.png").getpixel((0, 0)) == (128, 128, 128)
    exif = pil.Exif()
    exif[0x0112] = 6
    pil.new("RGB", (4, 2)).save(tmp_path / "turned.jpg", exif=exif)
    assert open_rgb(tmp_path / "turned.jpg").size == (2, 4)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".bmp", ".gif", ".tiff"])
def test_a_damaged_image_is_named(tmp_path: Path, suffix: str) -> None:
    whole = tmp_path / f"whole{suffix}"
    noise = torch.randint(0, 256, (64, 64, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    pil.fromarray(noise.numpy()).save(whole)
    assert open_rgb(whole).size == (64, 64)
    content = whole.read_bytes()
    path = tmp_path / f"damaged{suffix}"
    for damaged in (b"", b"no image at all", content[: len(content) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="damaged"):
            next(iter(ImageBatches([path], processor)))


def test_image_batches_refuse(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no images"):
        ImageBatches([], processor)
    with pytest.raises(InputError, match="list"):
        ImageBatches(tmp_path, processor)  # pyright: ignore[reportArgumentType]  # the mistake under test
    with pytest.raises(InputError, match="gone"):
        ImageBatches([tmp_path / "gone.png"], processor)[0]


def test_images_in_memory_are_batched_like_files(tmp_path: Path) -> None:
    clear = pil.new("RGBA", (2, 2), (255, 0, 0, 0))
    clear.save(tmp_path / "clear.png")
    (batch,) = ImageBatches([clear, tmp_path / "clear.png", pil.new("L", (2, 2), 7)], processor)
    assert batch["pixel_values"].tolist() == [[255] * 3, [255] * 3, [7] * 3]
    # It is the caller's still.
    assert clear.getpixel((0, 0)) == (255, 0, 0, 0)


class Sized:
    """A processor that says what it was called with."""

    def __init__(self, **own: object) -> None:
        vars(self).update(own)

    def __call__(self, **options: object) -> dict[str, object]:
        return {name: value for name, value in options.items() if name not in ("images", "return_tensors")}


@pytest.mark.parametrize(
    ("own", "asked"),
    [
        ({"size": {"height": 32, "width": 48}}, {"size": {"height": 16, "width": 24}}),
        ({"size": {"shortest_edge": 32, "longest_edge": None}}, {"size": {"shortest_edge": 16}}),
        (
            {"size": {"shortest_edge": 36}, "crop_size": {"height": 32, "width": 32}, "do_center_crop": True},
            {"size": {"shortest_edge": 18}, "crop_size": {"height": 16, "width": 16}},
        ),
        (
            {"size": {"height": 32, "width": 32}, "crop_size": {"height": 8, "width": 8}, "do_center_crop": False},
            {"size": {"height": 16, "width": 16}, "crop_size": {"height": 4, "width": 4}},
        ),
        ({"size": {"height": 32, "width": 32}, "crop_size": None}, {"size": {"height": 16, "width": 16}}),
    ],
    ids=["both sides", "shortest edge", "cropped", "not cropped", "no crop"],
)
def test_another_image_size_keeps_the_processors_proportions(own: dict[str, object], asked: dict[str, object]) -> None:
    processor = Sized(**own)
    image = pil.new("RGB", (2, 2))
    assert ImageBatches([image], processor, image_size=16)[0] == asked
    assert ImageBatches([image], processor)[0] == {}


def test_image_sizes_that_can_not_be(tmp_path: Path) -> None:
    image = pil.new("RGB", (2, 2))
    with pytest.raises(InputError, match="image_size is 0"):
        ImageBatches([image], processor, image_size=0)
    with pytest.raises(InputError, match="no image size that can be changed"):
        ImageBatches([image], processor, image_size=16)


def test_missing_pillow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"pliant\[eval\]"):
        ImageBatches([tmp_path / "a.png"], processor)[0]


class Vocabulary(Counter):
    """A tokenizer of a hundred words, two of them special."""

    all_special_ids = (0, 1)

    def __len__(self) -> int:
        return 100


def test_noise_replaces_a_share_of_tokens_in_half_of_the_texts() -> None:
    texts = [words(6)] * 400
    clean = torch.cat([batch["input_ids"] for batch in TextBatches(texts, Vocabulary(), 40, 6)])
    noisy = torch.cat([batch["input_ids"] for batch in TextBatches(texts, Vocabulary(), 40, 6, noise=0.5)])
    changed = noisy != clean
    rows = changed.any(dim=1).double().mean().item()
    assert 0.4 < rows < 0.6
    assert 0.4 < changed[changed.any(dim=1)].double().mean().item() < 0.6
    assert noisy.min() >= 2
    assert len(noisy.unique()) > 50


def test_noise_leaves_special_tokens_and_masks_alone() -> None:
    texts = [words(length) for length in (1, 6) * 50]
    clean = next(iter(TextBatches(texts, Vocabulary(), 100, 6)))
    noisy = next(iter(TextBatches(texts, Vocabulary(), 100, 6, noise=1.0)))
    assert torch.equal(noisy["attention_mask"], clean["attention_mask"])
    assert torch.equal(noisy["input_ids"] == 0, clean["input_ids"] == 0)


def test_noise_follows_from_the_seed() -> None:
    def ids(seed: int) -> Tensor:
        return torch.cat(
            [batch["input_ids"] for batch in TextBatches([words(6)] * 20, Vocabulary(), 5, 6, noise=0.5, seed=seed)]
        )

    assert torch.equal(ids(1), ids(1))
    assert not torch.equal(ids(1), ids(2))


def test_prompts_come_before_the_texts_in_turn() -> None:
    for bucket in (False, True):
        made, tokenizer = batches(["a", "bb", "ccc", "dddd", "e"], 2, prompts=("query: ", "passage: "), bucket=bucket)
        list(made)
        seen = sorted(text for call in tokenizer.calls for text in call)
        assert seen == ["passage: bb", "passage: dddd", "query: a", "query: ccc", "query: e"]
    made, tokenizer = batches(["a", "b"], 2, prompts=["p "])
    list(made)
    assert tokenizer.calls == [["p a", "p b"]]


class Bounded(Vocabulary):
    """Puts a special token at both ends; pads on the left."""

    def __call__(self, texts: list[str], **options: Any) -> dict[str, Tensor]:
        rows = [[1, *(2 + len(word) for word in text.split()), 1] for text in texts]
        width = max(map(len, rows))
        ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
        return {"input_ids": ids, "attention_mask": (ids > 0).long()}


@pytest.mark.parametrize("tokenizer", [Vocabulary(), Bounded()], ids=["right", "left"])
def test_noise_leaves_prompts_alone(tokenizer: Any) -> None:
    texts, prompts = [words(length) for length in (1, 3) * 50], ["two words ", "three more words ", ""]
    clean = next(iter(TextBatches(texts, tokenizer, 100, 6, prompts=prompts)))
    noisy = next(iter(TextBatches(texts, tokenizer, 100, 6, prompts=prompts, noise=1.0)))
    changed, real = noisy["input_ids"] != clean["input_ids"], clean["attention_mask"].bool()
    for row in range(100):
        before = (0 if row % 3 == 2 else 2 + row % 3) + (isinstance(tokenizer, Bounded) and row % 3 != 2)
        assert not changed[row][real[row]][:before].any()
    assert changed.any(dim=1).double().mean() > 0.3


def test_one_prompt_is_no_list() -> None:
    with pytest.raises(InputError, match="One prompt, 'query: ', where a list"):
        TextBatches(["a"], Counter(), prompts="query: ")


@pytest.mark.parametrize("noise", [-0.1, 1.1, float("nan")])
def test_noise_is_a_share(noise: float) -> None:
    with pytest.raises(InputError, match="from 0 to 1"):
        TextBatches(["a"], Vocabulary(), 1, noise=noise)


def test_seeds_may_be_any_size() -> None:
    next(iter(TextBatches([words(6)] * 2, Vocabulary(), 2, 6, noise=0.5, seed=10**30)))
