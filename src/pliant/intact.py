"""Images that can be read, among others that can't."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pliant.errors import InputError
from pliant.loaders import open_rgb

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")

_NAMED = 5


def intact(items: Sequence[T], skip: bool, image_of: "Callable[[T], Path | Image]") -> tuple[list[T], tuple[str, ...]]:
    """Return the items whose images can be read, and the names of the other images; each is read whole.

    Args:
        items: Images, alone or with what belongs to them.
        skip: Whether images that can't be read are left out rather than refused.
        image_of: Gives an item's image: a file, or an image of Pillow, which is taken as it is.

    Raises:
        InputError: Some can't be read and `skip` is off, or none can.
        MissingExtraError: Pillow is not installed.
    """
    good: list[T] = []
    corrupt: list[str] = []
    for item in items:
        image = image_of(item)
        if isinstance(image, Path) and not _is_readable(image):
            corrupt.append(str(image))
        else:
            good.append(item)
    if corrupt and not (skip and good):
        leave = "leave them out by --skip-corrupt" if good else "give others"
        raise InputError(
            f"{len(corrupt)} of {len(items)} images can't be read: {named(corrupt)}. "
            f"Repair them, take them out, or {leave}."
        )
    return good, tuple(corrupt)


def named(images: Sequence[str]) -> str:
    """Return the names of the first images, and how many more there are."""
    rest = len(images) - _NAMED
    return f"{', '.join(images[:_NAMED])}{f' and {rest} more' if rest > 0 else ''}"


def _is_readable(image: Path) -> bool:
    try:
        open_rgb(image)
    except InputError:
        return False
    return True
