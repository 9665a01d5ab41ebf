"""Images in the format of Fashion-MNIST, as they might be installed."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy


def fashion(folder: Path, labels: Sequence[int], train: Sequence[int], test: Sequence[int]) -> None:
    """Write even images with these labels; the sequences give the shade of each."""
    folder.mkdir(exist_ok=True)
    for name, shades in (("train", train), ("t10k", test)):
        _write(folder / f"{name}-labels-idx1-ubyte.gz", 8, numpy.array(labels))
        _write(folder / f"{name}-images-idx3-ubyte.gz", 16, numpy.repeat(shades, 28 * 28))


def _write(path: Path, header: int, values: numpy.ndarray) -> None:
    with gzip.open(path, "wb") as file:
        file.write(bytes(header) + values.astype(numpy.uint8).tobytes())
