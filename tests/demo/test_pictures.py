import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from demo.fashion import fashion

from pliant import demo
from pliant.data import images
from pliant.demo import drawings, pictures
from pliant.errors import InputError, MissingExtraError
from pliant.loaders import open_rgb

if TYPE_CHECKING:
    from PIL.Image import Image

pil = pytest.importorskip("PIL.Image")


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "_STAMPS", tmp_path / "stamps")
    monkeypatch.setattr(pictures, "_FASHION", tmp_path / "clothes")
    monkeypatch.setattr(pictures, "_PER_KIND", {"calibration": 3, "evaluation": 2})


def stamp(path: Path, shade: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pil.new("RGBA", (5, 4), (shade, 0, 0, 255)).save(path)


def pixels(image: "Path | Image") -> bytes:
    assert not isinstance(image, Path)
    return image.tobytes()


def test_without_anything_installed_they_are_synthetic_and_say_so() -> None:
    calibration, evaluation = demo.calibration_images(), demo.evaluation_images()
    assert calibration.name == "synthetic: discs, boxes, stripes, checks, clouds"
    assert evaluation.name == "synthetic: rings, triangles, cells, waves, glows"
    assert (len(calibration.images), len(evaluation.images)) == (15, 10)
    drawn = [pixels(image) for image in calibration.images + evaluation.images]
    assert len(set(drawn)) == 25
    assert drawn[:15] == [pixels(image) for image in demo.calibration_images().images]


def test_stamps_come_first_and_no_stamp_is_in_both_uses(tmp_path: Path) -> None:
    for shade, name in enumerate(("animals/cats/a.png", "town/b.png", "food/c.png", "sports/d.png")):
        stamp(tmp_path / "stamps" / name, shade)
    # The same picture under two kinds, as in people/ and military/; and what is no picture.
    stamp(tmp_path / "stamps" / "vehicles" / "again.png", 1)
    (tmp_path / "stamps" / "food" / "c.txt").write_text("A fish.")
    calibration, evaluation = demo.calibration_images(), demo.evaluation_images()
    assert calibration.name.startswith("stamps of Tux Paint: animals, clothes")
    assert sorted(path.name for path in calibration.images if isinstance(path, Path)) == ["a.png", "b.png"]
    assert sorted(path.name for path in evaluation.images if isinstance(path, Path)) == ["c.png", "d.png"]


def test_kinds_are_never_in_both_uses() -> None:
    for kinds in (pictures._STAMP_KINDS, pictures._FASHION_KINDS, drawings.KINDS):
        assert not set(kinds["calibration"]) & set(kinds["evaluation"])


def clothes(folder: Path) -> None:
    fashion(folder, [0, 1, 2, 3, 0, 1, 0, 0], train=range(8), test=range(10, 18))


def test_clothes_come_where_there_are_no_stamps(tmp_path: Path) -> None:
    clothes(tmp_path / "clothes")
    calibration, evaluation = demo.calibration_images(), demo.evaluation_images()
    assert calibration.name == "Fashion-MNIST: t-shirts, pullovers, coats, shirts, bags"
    assert evaluation.name == "Fashion-MNIST: trousers, dresses, sandals, sneakers, boots"
    # The first three of class 0, and the one of class 2.
    assert sorted(pixels(image)[0] for image in calibration.images) == [0, 2, 4, 6]
    assert sorted(pixels(image)[0] for image in evaluation.images) == [11, 13, 15]


def test_clothes_have_labels(tmp_path: Path) -> None:
    clothes(tmp_path / "clothes")
    found = {use: [(pixels(image)[0], kind) for image, kind in demo.labelled_images(use)] for use in pictures._PER_KIND}
    kinds = ["t-shirts", "trousers", "pullovers", "dresses", "t-shirts", "trousers", "t-shirts", "t-shirts"]
    assert found["calibration"] == list(enumerate(kinds))
    assert found["evaluation"] == [(10 + shade, kind) for shade, kind in enumerate(kinds)]


def test_there_are_no_labels_without_clothes() -> None:
    with pytest.raises(
        InputError, match=r"no Fashion-MNIST in .*clothes. Install it, .* dataset-fashion-mnist, or give"
    ):
        demo.labelled_images("evaluation")


def test_they_are_data_for_a_ranking() -> None:
    found = list(images("demo:vision"))
    assert [pixels(image) for image in found] == [pixels(image) for image in demo.calibration_images().images]
    assert {open_rgb(image).mode for image in found} == {"RGB"}


def test_without_pillow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"pliant\[eval\]"):
        demo.calibration_images()
