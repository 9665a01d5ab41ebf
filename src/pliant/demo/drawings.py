"""Synthetic images for machines that have no others: shapes, textures and shades in random colours."""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy

SIZE = 128
"""Width and height of a drawing, in pixels."""

Array = numpy.ndarray
Draw = Callable[[numpy.random.Generator], Array]
"""Draws one image: a float array `[height, width, 3]`, colours from 0 to 1."""


def draw(kind: str, seed: Sequence[int]) -> Array:
    """Return a drawing, uint8 `[height, width, 3]`.

    Args:
        kind: One of `KINDS`.
        seed: Some numbers; the same ones give the same drawing.
    """
    generator = numpy.random.default_rng(seed)
    # A little noise: perfectly even areas are like no photograph.
    drawn = _KINDS[kind](generator) + 0.02 * generator.standard_normal((SIZE, SIZE, 3))
    return (255 * drawn.clip(0, 1)).round().astype(numpy.uint8)


def _plane(generator: numpy.random.Generator) -> tuple[Array, Array]:
    """Return coordinates from -1 to 1 `[height, width]`, turned by a random angle."""
    angle = generator.uniform(0, 2 * numpy.pi)
    y, x = numpy.mgrid[-1 : 1 : SIZE * 1j, -1 : 1 : SIZE * 1j]
    return x * numpy.cos(angle) - y * numpy.sin(angle), x * numpy.sin(angle) + y * numpy.cos(angle)


def _mixed(weight: Array, generator: numpy.random.Generator) -> Array:
    """Return an image that goes from one random colour to another with `weight` `[height, width]`."""
    one, other = generator.random((2, 3))
    return one + weight[..., None] * (other - one)


def _shade(generator: numpy.random.Generator) -> Array:
    return _mixed((_plane(generator)[0] + 1) / 2, generator)


def _scattered(inside: Callable[[Array, Array, numpy.random.Generator], Array]) -> Draw:
    """Return what draws some shapes of random place, size and colour on a shade."""

    def scatter(generator: numpy.random.Generator) -> Array:
        image = _shade(generator)
        for _ in range(generator.integers(1, 7)):
            x, y = _plane(generator)
            size, (left, top) = generator.uniform(0.15, 0.6), generator.uniform(-0.8, 0.8, 2)
            shape = inside((x - left) / size, (y - top) / size, generator)
            image = numpy.where(shape[..., None], _shade(generator), image)
        return image

    return scatter


def _disc(x: Array, y: Array, generator: numpy.random.Generator) -> Array:
    return x**2 + (y * generator.uniform(1, 2)) ** 2 < 1


def _box(x: Array, y: Array, generator: numpy.random.Generator) -> Array:
    return (abs(x) < 1) & (abs(y) < generator.uniform(0.3, 1))


def _ring(x: Array, y: Array, generator: numpy.random.Generator) -> Array:
    radius = numpy.hypot(x, y)
    return (radius < 1) & (radius > generator.uniform(0.4, 0.8))


def _triangle(x: Array, y: Array, generator: numpy.random.Generator) -> Array:
    return (y > -0.6) & (y < 1 - 1.7 * abs(x - generator.uniform(-0.3, 0.3)))


def _stripes(generator: numpy.random.Generator) -> Array:
    return _mixed((numpy.sin(_plane(generator)[0] * generator.uniform(5, 40)) + 1) / 2, generator)


def _checks(generator: numpy.random.Generator) -> Array:
    x, y = (numpy.floor(axis * generator.uniform(2, 9)) for axis in _plane(generator))
    return _mixed((x + y) % 2, generator) * 0.7 + 0.3 * _shade(generator)


def _clouds(generator: numpy.random.Generator) -> Array:
    """Noise whose strength falls with its frequency, as in photographs."""
    frequency = numpy.hypot(*numpy.meshgrid(numpy.fft.fftfreq(SIZE), numpy.fft.rfftfreq(SIZE), indexing="ij"))
    strength = 1 / numpy.maximum(frequency, 1 / SIZE) ** generator.uniform(1, 2)
    phases = numpy.exp(2j * numpy.pi * generator.random(strength.shape))
    noise = numpy.fft.irfft2(strength * phases, (SIZE, SIZE))
    return _mixed((noise - noise.min()) / numpy.ptp(noise), generator)


def _cells(generator: numpy.random.Generator) -> Array:
    """Areas that are each nearest to one of some random points."""
    points = generator.uniform(-1, 1, (generator.integers(5, 25), 2, 1, 1))
    x, y = _plane(generator)
    nearest = numpy.hypot(x - points[:, 0], y - points[:, 1]).argmin(axis=0)
    return generator.random((len(points), 3))[nearest]


def _waves(generator: numpy.random.Generator) -> Array:
    x, y = _plane(generator)
    bent = x + 0.3 * numpy.sin(generator.uniform(2, 6) * y)
    return _mixed((numpy.sin(bent * generator.uniform(5, 30)) + 1) / 2, generator)


def _glows(generator: numpy.random.Generator) -> Array:
    image = 0.5 * _shade(generator)
    for left, top in generator.uniform(-0.8, 0.8, (generator.integers(2, 8), 2)):
        x, y = _plane(generator)
        light = numpy.exp(-((x - left) ** 2 + (y - top) ** 2) / generator.uniform(0.01, 0.2))
        image = image + light[..., None] * generator.random(3)
    return image


_KINDS: dict[str, Draw] = {
    "discs": _scattered(_disc),
    "boxes": _scattered(_box),
    "stripes": _stripes,
    "checks": _checks,
    "clouds": _clouds,
    "rings": _scattered(_ring),
    "triangles": _scattered(_triangle),
    "cells": _cells,
    "waves": _waves,
    "glows": _glows,
}

KINDS: dict[Literal["calibration", "evaluation"], tuple[str, ...]] = {
    "calibration": tuple(_KINDS)[:5],
    "evaluation": tuple(_KINDS)[5:],
}
"""Names of the kinds of drawings, by what they are for."""
