"""The report in a real browser: wide and narrow, light and dark, from disk alone."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import browser
import pytest
from evaluation.curves import plain, timed, with_tokens
from PIL import Image

from pliant.anatomy import Producer, Site
from pliant.evaluation.curve import Curve
from pliant.evaluation.formatting import percent, quantity, score
from pliant.evaluation.kept import Kept
from pliant.evaluation.report import write_report
from pliant.evaluation.runs import joined

pytestmark = pytest.mark.skipif(browser.executable() is None, reason=browser.MISSING)

WIDTHS = (1280, 400)
LONG = "an-organisation/a-model-with-a-rather-long-name-that-has-no-place-to-break"
AXES = ("sparsity", "parameters", "macs", "latency")

# The elements that stick out of the window, and those whose text sticks out of its chart; what scrolls by itself may.
OUTSIDE = """
[...document.querySelectorAll("body *")]
  .filter(e => !e.closest(".scroll") && e.getClientRects().length)
  .filter(e => { const r = e.getBoundingClientRect(); const c = e.closest(".card");
                 const limit = c ? c.getBoundingClientRect().right : innerWidth;
                 return r.right > limit + 0.5 || r.left < -0.5; })
  .map(e => `${e.tagName} ${e.textContent.slice(0, 30)}`)
"""

# Pairs of labels of one chart that cover each other.
COLLISIONS = """
[...document.querySelectorAll("svg")].filter(s => s.getClientRects().length).flatMap(svg => {
  const found = [...svg.querySelectorAll("text.name, text.middle, text.end")].map(t => [t, t.getBoundingClientRect()]);
  return found.flatMap(([a, r], i) => found.slice(i + 1)
    .filter(([b, s]) => Math.min(r.right, s.right) - Math.max(r.left, s.left) > 1
                     && Math.min(r.bottom, s.bottom) - Math.max(r.top, s.top) > 3)
    .map(([b]) => `${a.textContent} | ${b.textContent}`));
})
"""

# For each kind of text, its colour and the colours behind it, the nearest first, up to one that hides all others.
COLORS = """
["h1", ".lead", ".note", ".tile b", ".tile span", ".numbers td", ".numbers thead th", ".numbers .ours", "small",
 "dt", "dd", "footer", ".axes label", ".axes input:checked + label", "svg .tick", "svg .label text", ".kept td"]
  .flatMap(selector => [...document.querySelectorAll(selector)].map(e => {
    const behind = [];
    for (let b = e; !behind.length || behind[behind.length - 1].startsWith("rgba"); b = b.parentElement)
      behind.push(getComputedStyle(b).backgroundColor);
    const style = getComputedStyle(e);
    return [selector, e.closest("svg") ? style.fill : style.color, behind];
  }))
"""

NUMBERS = """
[...document.querySelectorAll('table[aria-label="Numbers by size"] tbody tr')]
  .map(row => [...row.querySelectorAll("data")].map(d => [d.value, d.innerText]))
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    with browser.running(tmp_path_factory.mktemp("profile")) as running:
        yield running.page()


@pytest.fixture
def curves() -> list[Curve]:
    task = "/a/long/path/to/some/texts/that/has/no/place/to/break/texts.jsonl"
    rates = {"soft-mask": 1.0, "fisher": 2.0, "a-ranker-with-a-very-long-name": 2.2}
    ours, fisher, other = (plain(ranker, rate, model=LONG, task=task) for ranker, rate in rates.items())
    return [timed(with_tokens(ours)), timed(fisher), other]


@pytest.fixture
def report(curves: list[Curve], tmp_path: Path) -> str:
    sizes = [step / 20 for step in range(20)]
    neurons = Site("mlp", "neurons", 0, 100, 1, "down", 8, (Producer("up", 1, 8, True),))
    kept = Kept(tuple(sizes), (neurons,), tuple((round(100 * (1 - size)),) for size in sizes))
    write_report(tmp_path / "report.html", curves, kept, {"model": LONG, "settings": {"steps": 160}, "long": "x" * 300})
    return (tmp_path / "report.html").as_uri()


def shown(page: browser.Page) -> list[str]:
    """The axes whose charts can be seen."""
    expression = '[...document.querySelectorAll(".by")].filter(e => e.offsetParent).map(e => e.className)'
    return [name.rpartition("by-")[2] for name in page.evaluate(expression)]


@pytest.mark.parametrize(("width", "dark"), list(product(WIDTHS, (False, True))))
def test_it_reads_well(page: browser.Page, report: str, width: int, dark: bool, tmp_path: Path) -> None:
    page.requests.clear()
    page.open(report, width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for axis in AXES:
        page.evaluate(f"document.querySelector('label[for=by-{axis}]').click()")
        assert shown(page) == [axis]
        assert page.evaluate(OUTSIDE) == []
        assert page.evaluate(COLLISIONS) == []
    weak = {(selector, ink, *behind) for selector, ink, behind in page.evaluate(COLORS) if contrast(ink, behind) < 4.5}
    assert weak == set()
    page.screenshot(tmp_path / "page.png")
    with Image.open(tmp_path / "page.png") as picture:
        colors = picture.convert("L").getcolors()
    assert colors is not None and picture.width == width and picture.height > 900
    paper = max(colors)[1]
    assert (paper < 60) if dark else (paper > 200)
    # Ink, grid, bands and shades of the heat maps: far from a blank page.
    assert len(colors) > 50
    assert (page.problems, page.requests) == ([], [report])


def test_its_numbers_are_those_of_the_json(page: browser.Page, report: str, curves: list[Curve]) -> None:
    page.open(report, 1280)
    points = json.loads(json.dumps(curves[0].to_json()))["points"]
    rows: list[list[list[str]]] = page.evaluate(NUMBERS)
    for point, row in zip(points, rows, strict=True):
        expected = [value for name, value in point.items() if name != "intervals"]
        assert [float(value) for value, _ in row] == expected
        assert [text for _, text in row] == [
            f"{100 * point['sparsity']:g}\N{NO-BREAK SPACE}%",
            percent(point["achieved_sparsity"], 1),
            quantity(point["parameters"]),
            quantity(point["macs"]),
            f"{point['latency_ms']:.3g}",
            *map(score, expected[5:]),
        ]


def test_the_keyboard_chooses_the_axis(page: browser.Page, report: str) -> None:
    page.open(report, 1280)
    assert shown(page) == ["sparsity"]
    page.evaluate("document.getElementById('by-sparsity').focus()")
    for axis in (*AXES[1:], AXES[0]):
        page.press("ArrowRight")
        assert shown(page) == [axis]
    focused = page.evaluate(
        "getComputedStyle(document.querySelector('.axes input:focus-visible + label')).outlineStyle"
    )
    assert focused == "solid"


def test_bands_of_several_runs_are_drawn(page: browser.Page, tmp_path: Path) -> None:
    curves = joined([[timed(plain(rate=rate)), timed(plain("fisher", 2 * rate))] for rate in (1.0, 1.4)])
    write_report(tmp_path / "seeds.html", curves, None, {})
    page.open((tmp_path / "seeds.html").as_uri(), 400)
    heights = "[...document.querySelectorAll('.by-sparsity .band')].map(e => e.getBBox().height)"
    found = page.evaluate(heights)
    assert len(found) == 2 * 2 and all(height > 5 for height in found)
    assert page.evaluate("document.body.innerText").count("bands are from the lowest to the highest") == 2
    assert page.evaluate(COLLISIONS) == [] and page.evaluate(OUTSIDE) == []


def contrast(ink: str, behind: Sequence[str]) -> float:
    """WCAG's ratio of the luminances of a CSS colour and of those behind it, the nearest first."""
    paper = (0.0, 0.0, 0.0)
    for color in reversed(behind):
        *channels, alpha = (*numbers(color), 1.0)[:4]
        paper = tuple(alpha * over + (1 - alpha) * under for over, under in zip(channels, paper, strict=True))
    light, dark = sorted((luminance(numbers(ink)), luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def numbers(color: str) -> list[float]:
    return [float(number) for number in re.findall(r"[\d.]+", color)]


def luminance(color: Sequence[float]) -> float:
    channels = [channel / 255 for channel in color[:3]]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_contrast_is_that_of_the_definition() -> None:
    assert contrast("rgb(0, 0, 0)", ["rgb(255, 255, 255)"]) == pytest.approx(21)
    assert contrast("rgb(119, 119, 119)", ["rgb(255, 255, 255)"]) == pytest.approx(4.48, abs=0.01)
    behind = ["rgba(0, 0, 0, 0.5)", "rgba(0, 0, 0, 0)", "rgb(255, 255, 255)"]
    grey = contrast("rgb(255, 255, 255)", ["rgb(127.5, 127.5, 127.5)"])
    assert contrast("rgb(255, 255, 255)", behind) == pytest.approx(grey)
