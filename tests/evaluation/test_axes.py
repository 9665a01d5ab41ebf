from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from evaluation.curves import timed

from pliant.evaluation.axes import axes
from pliant.evaluation.curve import Curve
from pliant.evaluation.panels import panels
from pliant.evaluation.svg import draw

MakeCurve = Callable[..., Curve]


def test_time_is_an_axis_only_where_it_was_measured(make_curve: MakeCurve) -> None:
    curve = timed(make_curve())
    assert [axis.name for axis in axes([curve])] == ["sparsity", "parameters", "macs", "latency"]
    assert [axis.name for axis in axes([make_curve(), curve])] == ["sparsity", "parameters", "macs"]
    untimed = replace(curve, points=(replace(curve.points[0], latency_ms=None), *curve.points[1:]))
    assert len(axes([untimed])) == 3


def test_a_ranker_that_was_not_timed_is_left_out_there(make_curve: MakeCurve) -> None:
    curves = [timed(make_curve()), make_curve("fisher", 2.0)]
    *_, macs, latency = (panels(curves, axis)[0] for axis in axes(curves))
    assert [line.label for line in macs.lines] == ["fisher", "soft-mask"]
    assert [line.label for line in latency.lines] == ["soft-mask"]


@pytest.mark.parametrize("name", ["sparsity", "parameters", "macs", "latency"])
def test_the_full_model_is_on_the_left_and_places_are_to_scale(make_curve: MakeCurve, name: str) -> None:
    curve = timed(make_curve())
    axis = next(axis for axis in axes([curve]) if axis.name == name)
    drawing = ElementTree.fromstring(draw(panels([curve], axis)[0]))
    group = next(group for group in drawing.iter("g") if group.findtext("title") == "soft-mask")
    xs = [float(circle.attrib["cx"]) for circle in group.iter("circle")]
    values = [axis.of(point) or 0.0 for point in curve.points]
    assert xs == sorted(xs) and len(set(xs)) == 4
    assert (xs[2] - xs[0]) / (xs[3] - xs[0]) == pytest.approx(
        (values[2] - values[0]) / (values[3] - values[0]), abs=0.01
    )
    texts = [text.text or "" for text in drawing.iter("text")]
    assert axis.label in texts


def test_round_numbers_stand_below_a_count(make_curve: MakeCurve) -> None:
    curve = timed(make_curve())
    shown = {axis.name: (axis, panels([curve], axis)[0]) for axis in axes([curve])}
    axis, panel = shown["parameters"]
    assert [axis.tick(mark).replace("\N{NO-BREAK SPACE}", " ") for mark in panel.marks] == ["18 M", "20 M", "22 M"]
    axis, panel = shown["sparsity"]
    assert [axis.tick(mark) for mark in panel.marks] == ["0", "30", "50", "62.5"]
    axis, panel = shown["latency"]
    assert [axis.tick(mark) for mark in panel.marks] == ["10", "15", "20"]
    single = replace(curve, points=curve.points[1:2])
    for axis in axes([single]):
        assert panels([single], axis)[0].marks == (axis.of(single.points[0]),)


def test_places_have_names(make_curve: MakeCurve) -> None:
    point = timed(make_curve()).points[2]
    names = [axis.place(axis.of(point) or 0.0) for axis in axes([timed(make_curve())])]
    assert [name.replace("\N{NO-BREAK SPACE}", " ") for name in names] == [
        "50 % removed",
        "17.4 M parameters",
        "4.35 G MACs",
        "11.1 ms",
    ]
