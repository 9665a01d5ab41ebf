import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pliant.errors import InputError, MissingExtraError
from pliant.evaluation.charts import kept_plot, plot
from pliant.evaluation.curve import Curve
from pliant.evaluation.kept import Kept

pytest.importorskip("matplotlib")


def size_of(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", content[16:24])


def test_two_panels_with_a_task_and_one_without(make_curve: Callable[..., Curve], tmp_path: Path) -> None:
    plot([make_curve(), make_curve("fisher", 2.0)], tmp_path / "two.png")
    plot([make_curve(retrieval=False)], tmp_path / "one.png")
    assert size_of(tmp_path / "two.png")[0] == 2 * size_of(tmp_path / "one.png")[0]


def test_a_single_size_can_be_plotted(make_curve: Callable[..., Curve], tmp_path: Path) -> None:
    curve = make_curve()
    plot([Curve.from_json({**curve.to_json(), "points": curve.to_json()["points"][2:3]})], tmp_path / "single.png")
    assert size_of(tmp_path / "single.png")[1] > 100


def test_the_same_curves_give_the_same_bytes(make_curve: Callable[..., Curve], kept: Kept, tmp_path: Path) -> None:
    for name in ("a", "b"):
        plot([make_curve()], tmp_path / f"{name}.png")
        kept_plot(kept, tmp_path / f"{name}-kept.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a-kept.png").read_bytes() == (tmp_path / "b-kept.png").read_bytes()
    plot([make_curve(rate=2.0)], tmp_path / "c.png")
    assert (tmp_path / "a.png").read_bytes() != (tmp_path / "c.png").read_bytes()


def test_plotting_leaves_settings_and_pyplot_alone(make_curve: Callable[..., Curve], tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    plot([make_curve()], tmp_path / "plot.png")
    assert dict(matplotlib.rcParams) == before


def test_a_place_that_cannot_be_written_is_refused(make_curve: Callable[..., Curve], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Can't write"):
        plot([make_curve()], tmp_path / "file" / "plot.png")


def test_a_plot_is_a_png(make_curve: Callable[..., Curve], kept: Kept, tmp_path: Path) -> None:
    for draw in (lambda: plot([make_curve()], tmp_path / "a.svg"), lambda: kept_plot(kept, tmp_path / "kept")):
        with pytest.raises(InputError, match=r"doesn't end in \.png"):
            draw()
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_extra_is_named(
    make_curve: Callable[..., Curve], kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pliant\[demo\]"):
        plot([make_curve()], tmp_path / "plot.png")
    with pytest.raises(MissingExtraError, match=r"pliant\[demo\]"):
        kept_plot(kept, tmp_path / "kept.png")
    assert list(tmp_path.iterdir()) == []
