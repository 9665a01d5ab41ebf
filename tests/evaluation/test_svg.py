from collections.abc import Callable
from xml.etree import ElementTree

from pliant.evaluation.curve import Curve
from pliant.evaluation.panels import panels
from pliant.evaluation.svg import draw


def circles(drawing: ElementTree.Element, label: str) -> list[tuple[float, float]]:
    group = next(g for g in drawing.iter("g") if g.findtext("title") == label)
    return [(float(circle.attrib["cx"]), float(circle.attrib["cy"])) for circle in group.iter("circle")]


def test_points_lie_to_scale(make_curve: Callable[..., Curve]) -> None:
    curve = make_curve()
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = circles(ElementTree.fromstring(draw(panels([curve])[0])), "soft-mask")
    assert abs((x2 - x0) / (x1 - x0) - 0.5 / 0.3) < 0.01
    assert x3 > x2
    fall = [1 - point.metrics["cosine"].value for point in curve.points]
    assert abs((y2 - y0) / (y3 - y0) - fall[2] / fall[3]) < 0.02
    assert y0 < y1 < y2 < y3


def test_names_are_text_and_escaped(make_curve: Callable[..., Curve]) -> None:
    drawing = ElementTree.fromstring(draw(panels([make_curve(), make_curve("<b>&", 2.0)])[0]))
    texts = [text.text for text in drawing.iter("text")]
    assert "<b>&" in texts
    assert "soft-mask" in texts


def test_everything_stays_inside_even_for_one_size_and_long_names(make_curve: Callable[..., Curve]) -> None:
    curve = make_curve("a-ranker-with-a-very-long-name")
    single = Curve.from_json({**curve.to_json(), "points": curve.to_json()["points"][2:3]})
    for shown in (curve, single):
        drawing = ElementTree.fromstring(draw(panels([shown])[1]))
        for circle in drawing.iter("circle"):
            assert 0 < float(circle.attrib["cx"]) < 460
            assert 0 < float(circle.attrib["cy"]) < 300
