"""Images to calibrate and to evaluate image encoders with, of different kinds: what is installed, or drawn here."""

import gzip
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy

from pliant.demo import drawings
from pliant.errors import InputError, MissingExtraError
from pliant.files import digest

if TYPE_CHECKING:
    from PIL.Image import Image

Use = Literal["calibration", "evaluation"]

# Debian's tuxpaint-stamps-default: photos and drawings on transparent ground, in folders by kind.
_STAMPS = Path("/usr/share/tuxpaint/stamps")
_STAMP_KINDS: dict[Use, tuple[str, ...]] = {
    "calibration": tuple(
        "animals clothes household medical military naturalforces people seasonal symbols town".split()
    ),
    "evaluation": tuple("food hobbies plants space sports vehicles".split()),
}

# Debian's dataset-fashion-mnist: 28 × 28 grey images of clothes in ten classes.
_FASHION = Path("/usr/share/datasets/fashion-mnist")
_FASHION_FILES: dict[Use, str] = {"calibration": "train", "evaluation": "t10k"}
_FASHION_NAMES = tuple("t-shirts trousers pullovers dresses coats sandals shirts sneakers bags boots".split())
_FASHION_KINDS: dict[Use, tuple[str, ...]] = {"calibration": _FASHION_NAMES[::2], "evaluation": _FASHION_NAMES[1::2]}
_PER_KIND: dict[Use, int] = {"calibration": 120, "evaluation": 40}


@dataclass(frozen=True)
class Pictures:
    """Images, and what they are.

    Args:
        name: What they show and where they come from.
        images: Their files, or the images themselves, shuffled; always in the same order.
    """

    name: str
    images: tuple["Path | Image", ...]


def calibration_images() -> Pictures:
    """Return some hundred images to calibrate with: photo stamps, else clothes, where installed, else synthetic ones.

    Raises:
        MissingExtraError: Pillow is not installed.
    """
    return _pictures("calibration")


def evaluation_images() -> Pictures:
    """Return images from the same place as `calibration_images`, of other kinds; none is in both.

    Raises:
        MissingExtraError: Pillow is not installed.
    """
    return _pictures("evaluation")


def _pictures(use: Use) -> Pictures:
    sources = (
        ("stamps of Tux Paint", _STAMP_KINDS[use], _stamps),
        ("Fashion-MNIST", _FASHION_KINDS[use], _clothes),
        ("synthetic", drawings.KINDS[use], _drawings),
    )
    for name, kinds, read in sources:
        images = list(read(use))
        if images:
            random.Random(0).shuffle(images)
            return Pictures(f"{name}: {', '.join(kinds)}", tuple(images))
    raise AssertionError("drawings are always there")


def _stamps(use: Use) -> Iterator[Path]:
    """Yield the stamps of the kinds for that use; one that is in two kinds is for calibration."""
    seen = set() if use == "calibration" else {digest(path) for path in _stamps("calibration")}
    for kind in _STAMP_KINDS[use]:
        for path in sorted((_STAMPS / kind).rglob("*.png")):
            if (content := digest(path)) not in seen:
                seen.add(content)
                yield path


def labelled_images(use: Use) -> "Iterator[tuple[Image, str]]":
    """Yield images of clothes with their kinds: Fashion-MNIST's 60,000 for training, or its 10,000 for tests.

    Args:
        use: `calibration` for those that examples are taken from, `evaluation` for those that are to be named.

    Raises:
        InputError: They are not installed.
        MissingExtraError: Pillow is not installed.
    """
    labels, pixels = fashion_mnist(use)
    if not len(labels):
        raise InputError(
            f"There are no labelled images for demo:vision: no Fashion-MNIST in {_FASHION}. Install it, on Debian by "
            "apt install dataset-fashion-mnist, or give a folder of images with a sub-folder for each class."
        )
    return ((_image(image), _FASHION_NAMES[label]) for image, label in zip(pixels, labels, strict=True))


def _clothes(use: Use) -> "Iterator[Image]":
    labels, pixels = fashion_mnist(use)
    for kind in _FASHION_KINDS[use] if len(labels) else ():
        for image in pixels[labels == _FASHION_NAMES.index(kind)][: _PER_KIND[use]]:
            yield _image(image)


def fashion_mnist(use: Use) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Return the labels `[images]` and pixels `[images, 28, 28]` for a use; none where they aren't installed."""
    name = _FASHION_FILES[use]
    labels = _idx(_FASHION / f"{name}-labels-idx1-ubyte.gz", header=8)
    return labels, _idx(_FASHION / f"{name}-images-idx3-ubyte.gz", header=16).reshape(-1, 28, 28)


def _idx(path: Path, header: int) -> numpy.ndarray:
    """Return the bytes of a file in the format of MNIST after its header; none where there is no such file."""
    if not path.is_file():
        return numpy.zeros(0, dtype=numpy.uint8)
    with gzip.open(path) as file:
        return numpy.frombuffer(file.read(), dtype=numpy.uint8)[header:]


def _drawings(use: Use) -> "Iterator[Image]":
    for number, kind in enumerate(drawings.KINDS[use]):
        for index in range(_PER_KIND[use]):
            # Another seed for every drawing: places and colours would repeat.
            yield _image(drawings.draw(kind, seed=(use == "evaluation", number, index)))


def _image(pixels: numpy.ndarray) -> "Image":
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("Making images", "eval") from error
    return Image.fromarray(pixels)
