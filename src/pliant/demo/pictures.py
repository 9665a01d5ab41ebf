"""Images to calibrate and to evaluate image encoders with, of different kinds: what is installed, or drawn here."""

import gzip
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy

from pliant.demo import drawings
from pliant.errors import MissingExtraError
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
_FASHION_KINDS: dict[Use, dict[int, str]] = {
    "calibration": {0: "t-shirts", 2: "pullovers", 4: "coats", 6: "shirts", 8: "bags"},
    "evaluation": {1: "trousers", 3: "dresses", 5: "sandals", 7: "sneakers", 9: "boots"},
}
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
        ("Fashion-MNIST", tuple(_FASHION_KINDS[use].values()), _clothes),
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


def _clothes(use: Use) -> "Iterator[Image]":
    name = _FASHION_FILES[use]
    labels = _idx(_FASHION / f"{name}-labels-idx1-ubyte.gz", header=8)
    pixels = _idx(_FASHION / f"{name}-images-idx3-ubyte.gz", header=16)
    for label in _FASHION_KINDS[use] if len(labels) else ():
        for image in pixels.reshape(-1, 28, 28)[labels == label][: _PER_KIND[use]]:
            yield _image(image)


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
