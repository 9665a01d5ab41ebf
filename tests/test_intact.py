from collections.abc import Callable
from pathlib import Path

import pytest
from cli.specimens import images

from pliant.errors import InputError
from pliant.intact import intact, named

Image = pytest.importorskip("PIL.Image")


def nothing(file: Path) -> None:
    file.write_bytes(b"")


def half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def text(file: Path) -> None:
    file.write_text("This is no image.")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return sorted(images(tmp_path).rglob("*.png"))


@pytest.mark.parametrize("damage", [nothing, half, text])
def test_corrupt_images_are_parted_from_the_others(files: list[Path], damage: Callable[[Path], None]) -> None:
    for index in (0, 7):
        damage(files[index])
    good, corrupt = intact(files, True, lambda image: image)
    assert corrupt == (str(files[0]), str(files[7]))
    assert good == [file for index, file in enumerate(files) if index not in (0, 7)]


def test_they_are_refused_by_name_and_number(files: list[Path]) -> None:
    half(files[3])
    with pytest.raises(
        InputError, match=r"^1 of 12 images can't be read: \S+\.png. Repair .* by --skip-corrupt.$"
    ) as one:
        intact(files, False, lambda image: image)
    assert str(files[3]) in str(one.value)
    for file in files[:7]:
        nothing(file)
    with pytest.raises(InputError, match=r"^7 of 12 images .*: (\S+, ){4}\S+ and 2 more. Repair"):
        intact(files, False, lambda image: image)


def test_none_is_left(files: list[Path]) -> None:
    for file in files:
        nothing(file)
    with pytest.raises(InputError, match=r"12 of 12 images .* or give others.$"):
        intact(files, True, lambda image: image)


def test_what_belongs_to_an_image_stays_with_it(files: list[Path]) -> None:
    text(files[1])
    good, corrupt = intact([(file, str(index)) for index, file in enumerate(files[:3])], True, lambda item: item[0])
    assert good == [(files[0], "0"), (files[2], "2")] and corrupt == (str(files[1]),)


def test_images_in_memory_are_taken_as_they_are() -> None:
    image = Image.new("RGB", (2, 2))
    assert intact([image], False, lambda found: found) == ([image], ())


def test_names() -> None:
    assert named(["a", "b"]) == "a, b"
    assert named(list("abcdefg")) == "a, b, c, d, e and 2 more"
