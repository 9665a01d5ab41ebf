import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from evaluation.curves import timed, with_tokens

from pliant.errors import InputError
from pliant.evaluation.curve import Curve
from pliant.evaluation.kept import Kept
from pliant.evaluation.report import write_report
from pliant.evaluation.runs import joined

PROVENANCE = {"model": "demo:text", "seed": 0, "settings": {"rest": "mean"}, "note": None}
VOID = {"meta", "link", "br", "circle", "path", "input"}


class Page(HTMLParser):
    """Reads a report: its tables' exact numbers, its text, its links, and whether its elements nest."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.text: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self._open: list[str] = []
        self._table = ""
        self.feed(path.read_text(encoding="utf-8"))
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        self.addresses += [values[name] or "" for name in ("href", "src") if name in values]
        if tag not in VOID:
            self._open.append(tag)
        if tag == "table":
            self._table = values["aria-label"] or ""
            self.tables[self._table] = []
        if tag == "tr":
            self.tables[self._table].append([])
        if tag == "data" and "table" in self._open:
            self.tables[self._table][-1].append(values["value"] or "")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture
def curves(make_curve: Callable[..., Curve]) -> list[Curve]:
    return [make_curve(), make_curve("fisher", 2.0)]


def written(path: Path, curves: list[Curve], kept: Kept | None) -> Page:
    write_report(path, curves, kept, PROVENANCE)
    return Page(path)


def test_numbers_are_exactly_those_of_the_json(curves: list[Curve], kept: Kept, tmp_path: Path) -> None:
    page = written(tmp_path / "r.html", curves, kept)
    points = json.loads(json.dumps(curves[0].to_json()))["points"]
    rows = [[float(value) for value in row] for row in page.tables["Numbers by size"][1:]]
    assert rows == [[value for name, value in point.items() if name != "intervals"] for point in points]
    others = json.loads(json.dumps(curves[1].to_json()))["points"]
    compared = [[float(value) for value in row] for row in page.tables["Rankers compared"][1:]]
    assert compared == [
        [a["sparsity"], a["cosine"], b["cosine"], a["ndcg_slim_queries"], b["ndcg_slim_queries"]]
        for a, b in zip(points, others, strict=True)
    ]


def test_token_outputs_are_shown_where_they_were_measured(
    make_curve: Callable[..., Curve], kept: Kept, tmp_path: Path
) -> None:
    curves = [with_tokens(make_curve(retrieval=False)), with_tokens(make_curve("fisher", 2.0, retrieval=False))]
    page = written(tmp_path / "r.html", curves, kept)
    assert [row[-1] for row in page.tables["Numbers by size"][1:]] == ["1.0", "0.7", "0.5", "0.375"]
    half = curves[0].points[2].value("cosine"), curves[1].points[2].value("cosine")
    assert page.tables["Rankers compared"][3] == ["0.5", *map(repr, half), "0.5", "0.5"]
    assert "mean cosine to its token outputs" in "".join(page.text)


def test_kept_units_are_those_of_the_cuts(curves: list[Curve], kept: Kept, tmp_path: Path) -> None:
    page = written(tmp_path / "r.html", curves, kept)
    assert page.tables["neurons kept"][1:] == [["8", "6", "2"]] * 2
    assert page.tables["heads kept"][1:] == [["2", "1", "1"]] * 2


def test_the_file_loads_nothing(curves: list[Curve], kept: Kept, tmp_path: Path) -> None:
    page = written(tmp_path / "r.html", curves, kept)
    assert page.addresses == ["data:,"]
    assert not {"script", "img", "iframe", "object"} & set(page.tags)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|@import|url\(", text)


def test_everything_is_escaped(make_curve: Callable[..., Curve], kept: Kept, tmp_path: Path) -> None:
    nasty = '<script>alert("x")</script>&$title'
    ours = make_curve(nasty, model=nasty, task=nasty)
    other = make_curve(nasty + "2", model=nasty, task=nasty)
    path = tmp_path / "r.html"
    write_report(path, [ours, other], kept, {nasty: nasty, "list": [nasty]})
    page = Page(path)
    assert "script" not in page.tags
    assert "".join(page.text).count(nasty) >= 6
    assert nasty not in path.read_text(encoding="utf-8")


def test_provenance_is_shown_in_its_order(curves: list[Curve], tmp_path: Path) -> None:
    text = "".join(written(tmp_path / "r.html", curves, None).text)
    shown = ["demo:text", "seed0", 'settings{"rest": "mean"}', "note–"]
    assert [text.index(entry) for entry in shown] == sorted(text.index(entry) for entry in shown)


def test_parts_without_data_are_left_out(make_curve: Callable[..., Curve], tmp_path: Path) -> None:
    page = written(tmp_path / "r.html", [make_curve(retrieval=False)], None)
    assert list(page.tables) == ["Numbers by size"]
    assert "nDCG" not in "".join(page.text)
    assert page.tags.count("svg") == len(["sparsity", "parameters", "MACs"])


def test_charts_come_once_for_each_measure_of_size(curves: list[Curve], tmp_path: Path) -> None:
    page = written(tmp_path / "r.html", curves, None)
    assert page.tags.count("input") == 3 and page.tags.count("svg") == 2 * 3
    page = written(tmp_path / "r.html", [timed(curve) for curve in curves], None)
    assert page.tags.count("input") == 4 and page.tags.count("svg") == 2 * 4
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert text.count(" checked>") == 1 and 'id="by-sparsity" checked>' in text
    names = re.findall(r'id="(by-\w+)"', text)
    assert names == ["by-sparsity", "by-parameters", "by-macs", "by-latency"]
    assert all(f"#{name}:checked ~ .{name}" in text and f'class="pair by {name}"' in text for name in names)


def test_times_are_exactly_those_of_the_json(curves: list[Curve], tmp_path: Path) -> None:
    ours = timed(curves[0])
    page = written(tmp_path / "r.html", [ours], None)
    rows = [[float(value) for value in row] for row in page.tables["Numbers by size"][1:]]
    assert rows == [[v for name, v in point.items() if name != "intervals"] for point in ours.to_json()["points"]]
    text = " ".join("".join(page.text).split())
    assert "Measured on A Processor (cpu, 2 threads)" in text and "of 20 ms for one input of 128 tokens" in text


def test_several_runs_are_named(make_curve: Callable[..., Curve], tmp_path: Path) -> None:
    (mean,) = joined([[make_curve(rate=rate)] for rate in (1.0, 1.5)])
    page = written(tmp_path / "r.html", [mean], None)
    assert "mean of 2 runs" in "".join(page.text)
    rows = [[float(value) for value in row] for row in page.tables["Numbers by size"][1:]]
    assert rows == [[v for name, v in point.items() if name != "intervals"] for point in mean.to_json()["points"]]


def test_both_schemes_and_narrow_screens_are_provided_for(curves: list[Curve], tmp_path: Path) -> None:
    written(tmp_path / "r.html", curves, None)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    assert "width=device-width" in text


def test_the_same_curves_give_the_same_file(curves: list[Curve], kept: Kept, tmp_path: Path) -> None:
    written(tmp_path / "a.html", curves, kept)
    written(tmp_path / "b.html", curves, kept)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_a_failure_leaves_the_old_report(curves: list[Curve], tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_text("old")
    with pytest.raises(InputError, match="nothing to show"):
        write_report(path, [], None, {})
    assert path.read_text() == "old"
    with pytest.raises(InputError, match="Can't write"):
        write_report(path / "below-a-file.html", curves, None, {})
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.html"]
