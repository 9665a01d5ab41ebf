from collections.abc import Callable
from itertools import pairwise

import pytest
from evaluation.curves import with_tokens
from hypothesis import given
from hypothesis import strategies as st

from pliant.errors import InputError
from pliant.evaluation.curve import Curve
from pliant.evaluation.panels import panels, shorten, spaced, spread, ticks

finite = st.floats(-1, 1, allow_nan=False)


def test_the_first_curve_is_emphasised_and_on_top(make_curve: Callable[..., Curve]) -> None:
    cosine, retrieval = panels([make_curve(), make_curve("fisher", 2.0), make_curve("random", 3.0)])
    assert [(line.label, line.role, line.color) for line in cosine.lines] == [
        ("fisher", "other", 1),
        ("random", "other", 2),
        ("soft-mask", "main", 0),
    ]
    assert [line.label for line in retrieval.lines] == ["fisher", "random", "both slim", "soft-mask"]
    assert retrieval.reference == 0.886
    assert cosine.reference == 1.0


def test_values_are_the_points_own(make_curve: Callable[..., Curve]) -> None:
    curve = make_curve()
    cosine, retrieval = panels([curve])
    assert cosine.lines[-1].points == tuple((point.sparsity, point.value("cosine")) for point in curve.points)
    assert cosine.lines[-1].band == tuple(
        (point.sparsity, point.value("worst_cosine"), point.value("cosine")) for point in curve.points
    )
    assert retrieval.lines[-1].points == tuple(
        (point.sparsity, point.value("ndcg_slim_queries")) for point in curve.points
    )


def test_no_retrieval_panel_without_a_task(make_curve: Callable[..., Curve]) -> None:
    assert [panel.title for panel in panels([make_curve(retrieval=False)])] == ["Fidelity"]


def test_curves_that_do_not_belong_together_are_refused(make_curve: Callable[..., Curve]) -> None:
    with pytest.raises(InputError, match="different models or tasks"):
        panels([make_curve(), make_curve("fisher", model="another")])
    with pytest.raises(InputError, match="nothing to show"):
        panels([])
    with pytest.raises(InputError, match="nothing to show"):
        panels([make_curve(points=())])


def test_ticks_of_familiar_ranges() -> None:
    assert ticks(0.3, 1.0) == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(0.8612, 0.886) == [0.86, 0.865, 0.87, 0.875, 0.88, 0.885, 0.89]


@given(finite, finite)
def test_ticks_enclose_what_they_are_for(one: float, other: float) -> None:
    low, high = min(one, other), max(one, other)
    marks = ticks(low, high)
    assert marks[0] <= low + 1e-9
    assert marks[-1] >= high - 1e-9
    assert 2 <= len(marks) <= 8
    assert marks == sorted(set(marks))


@given(st.lists(st.floats(0, 200), min_size=1, max_size=8))
def test_labels_never_overlap_and_keep_their_order(positions: list[float]) -> None:
    placed = spread(positions, 14, 0, 200)
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    heights = [placed[i] for i in order]
    assert all(after - before >= 14 - 1e-9 for before, after in pairwise(heights))
    assert min(heights) >= -1e-9
    assert max(heights) <= 200 + 1e-9


def test_labels_with_room_stay_where_they_are() -> None:
    assert spread([90.0, 10.0, 50.0], 14, 0, 100) == [90.0, 10.0, 50.0]


def test_crowded_axis_labels_are_left_out_but_not_the_ends() -> None:
    assert spaced([0, 1, 2, 30, 59, 60], 24) == [0, 3, 5]
    assert spaced([5.0], 24) == [0]


def test_long_names_end_in_an_ellipsis() -> None:
    assert shorten("soft-mask") == "soft-mask"
    assert shorten("a-ranker-with-a-very-long-name") == "a-ranker-with-a-ver…"


def test_token_outputs_are_a_second_line(make_curve: Callable[..., Curve]) -> None:
    (cosine,) = panels([with_tokens(make_curve(retrieval=False)), make_curve("fisher", retrieval=False)])
    assert [(line.label, line.role) for line in cosine.lines] == [
        ("fisher", "other"),
        ("token outputs", "second"),
        ("soft-mask", "main"),
    ]
    assert cosine.lines[1].points == tuple((size, 1 - size) for size in (0.0, 0.3, 0.5, 0.625))
    assert "token outputs" in cosine.note
