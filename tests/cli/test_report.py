import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evaluation.curves import plain, timed

from pliant.evaluation import Curve
from pliant.evaluation.runs import joined

Run = Callable[..., Any]
Refused = Callable[..., str]


@pytest.fixture
def seeds(tmp_path: Path) -> list[Path]:
    files = [tmp_path / f"seed {seed}.json" for seed in range(3)]
    for seed, file in enumerate(files):
        curves = [timed(plain(rate=1 + seed / 10)), timed(plain("fisher", 2.0))]
        made_with = {"seed": seed, "units": 5_000, "calibration: path": "demo:text"}
        file.write_text(json.dumps({"curves": [curve.to_json() for curve in curves], "made_with": made_with}))
    return files


def test_seeds_become_one_report(pliant: Run, seeds: list[Path], tmp_path: Path) -> None:
    outputs = {name: tmp_path / "new" / name for name in ("r.html", "c.png", "c.json", "c.csv")}
    page, picture, saved, sheet = outputs.values()
    result = pliant("report", *seeds, "--out", page, "--plot", picture, "--save", saved, "--csv", sheet, "--json")
    assert (result.status, result.err) == (0, "")
    printed = json.loads(result.out)
    assert printed == json.loads(saved.read_text("utf-8"))
    assert printed["made_with"] == {"seed": [0, 1, 2], "units": 5_000, "calibration: path": "demo:text"}
    files = [list(map(Curve.from_json, json.loads(file.read_text("utf-8"))["curves"])) for file in seeds]
    expected = joined(files)
    assert list(map(Curve.from_json, printed["curves"])) == expected
    text = page.read_text("utf-8")
    assert all(repr(point.value("cosine")) in text for point in expected[0].points)
    assert "<dt>seed</dt><dd>[0, 1, 2]</dd>" in text
    assert picture.read_bytes().startswith(b"\x89PNG") and len(sheet.read_text("utf-8").splitlines()) == 1 + 2 * 4 * 4


def test_the_table_is_shown_unless_quiet(pliant: Run, seeds: list[Path]) -> None:
    shown, quiet = pliant("report", *seeds), pliant("report", *seeds, "--quiet")
    assert (shown.status, shown.err) == (0, "") and "half the range of 3 runs" in shown.out
    assert (quiet.status, quiet.out, quiet.err) == (0, "", "")


def test_what_eval_saves_is_shown_again(pliant: Run, elastic: Path, texts: Path, tmp_path: Path) -> None:
    saved = tmp_path / "curves.json"
    command = ("eval", elastic, "--data", texts, "--sparsity", "0,0.5", "--latency", "--against", "random")
    measured = pliant(*command, "--save", saved)
    assert measured.status == 0, measured.err
    assert "ms: median for one input of 40 tokens" in " ".join(measured.out.split())
    first, second = map(Curve.from_json, json.loads(saved.read_text("utf-8"))["curves"])
    for curve in (first, second):
        assert curve.latency is not None and curve.latency.tokens == 40 and 10 <= curve.latency.rounds <= 200
        assert all(point.latency_ms for point in curve.points)
    again = pliant("report", saved, "--out", tmp_path / "page.html")
    assert (again.status, again.out) == (0, measured.out)
    text = (tmp_path / "page.html").read_text("utf-8")
    assert repr(first.points[1].latency_ms) in text and "by-latency" in text and "fingerprint" in text


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (None, "No such file"),
        (b"\xff\xfe", "it is no JSON"),
        (b"{", "it is no JSON"),
        (b"[]", "holds no curves"),
        (b'{"curves": []}', "holds no curves"),
        (b'{"curves": [1]}', "can't be read, only 3 and 2"),
        (b'{"curves": [{"format": 9}]}', "Curves of format 9"),
    ],
)
def test_files_that_hold_nothing(refused: Refused, tmp_path: Path, content: bytes | None, named: str) -> None:
    file = tmp_path / "curves.json"
    if content is not None:
        file.write_bytes(content)
    message = refused("report", file, "--out", tmp_path / "r.html")
    assert named in message and str(file) in message


def test_files_that_do_not_belong_together(refused: Refused, seeds: list[Path], tmp_path: Path) -> None:
    assert "is named twice" in refused("report", seeds[0], seeds[1], seeds[0])
    assert "would be lost" in refused("report", *seeds, "--save", seeds[0])
    other, curve = tmp_path / "other.json", plain()
    for changed, named in (
        (plain(model="another"), "different models or tasks"),
        (replace(curve, points=curve.points[:2]), "other sizes each"),
    ):
        other.write_text(json.dumps({"curves": [changed.to_json()]}))
        assert named in refused("report", seeds[0], other)
