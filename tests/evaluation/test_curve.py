from collections.abc import Callable

import pytest

from pliant.errors import InputError
from pliant.evaluation.curve import Curve


def test_json_of_another_version_is_refused(make_curve: Callable[..., Curve]) -> None:
    data = make_curve().to_json()
    with pytest.raises(InputError, match=r"missing \['tokens'\]"):
        Curve.from_json({name: value for name, value in data.items() if name != "tokens"})
    with pytest.raises(InputError, match=r"saved point.*unknown \['speed'\]"):
        Curve.from_json({**data, "points": [{**data["points"][0], "speed": 1}]})


def test_a_point_is_found_by_what_was_asked(make_curve: Callable[..., Curve]) -> None:
    curve = make_curve()
    assert curve.at(0.5) is curve.points[2]
    assert curve.at(0.4) is None
