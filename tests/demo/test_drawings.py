import numpy
import pytest

from pliant.demo.drawings import KINDS, SIZE, draw

ALL = KINDS["calibration"] + KINDS["evaluation"]


@pytest.mark.parametrize("kind", ALL)
def test_a_drawing_follows_its_seed(kind: str) -> None:
    one, other = draw(kind, (0, 1)), draw(kind, (0, 2))
    assert (one.shape, one.dtype) == ((SIZE, SIZE, 3), numpy.uint8)
    assert numpy.array_equal(one, draw(kind, (0, 1)))
    assert not numpy.array_equal(one, other)


@pytest.mark.parametrize("kind", ALL)
def test_a_drawing_shows_something(kind: str) -> None:
    assert max(draw(kind, (0, seed)).std() for seed in range(3)) > 10


def test_kinds_differ() -> None:
    assert len({draw(kind, (0, 1)).tobytes() for kind in ALL}) == len(ALL)
