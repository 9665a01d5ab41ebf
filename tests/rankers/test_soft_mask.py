from typing import Any

import pytest

from pliant.errors import InputError
from pliant.rankers.soft_mask import SoftMask


def test_the_temperature_falls_geometrically() -> None:
    settings = SoftMask(steps=3, hot=4.0, cold=1.0)
    assert [settings.temperature(step) for step in range(3)] == pytest.approx([4, 2, 1])
    assert SoftMask(steps=1, hot=4.0).temperature(0) == 4.0


def test_step_sizes_fall_to_a_tenth() -> None:
    """In the search, and once more in settling."""
    settings = SoftMask(steps=101, settle=101)
    decays = [settings.decay(step) for step in range(101)]
    assert decays == [settings.decay(step) for step in range(101, 202)]
    assert decays[0] == pytest.approx(1)
    assert decays[50] == pytest.approx(0.55, abs=0.01)
    assert decays[100] == pytest.approx(0.1, abs=0.001)
    assert decays == sorted(decays, reverse=True)


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"steps": -1}, "steps"),
        ({"settle": -1}, "settle"),
        ({"sparsities": 0}, "sparsities"),
        ({"judge_every": 0}, "judge_every"),
        ({"highest": 1.0}, "highest"),
        ({"ladder": ()}, "ladder"),
        ({"ladder": (0.5, 1.0)}, "ladder"),
        ({"rate": 0.0}, "rate"),
        ({"rest_rate": -0.1}, "rest_rate"),
        ({"norm_rate": -0.1}, "norm_rate"),
        ({"knots": ()}, "knots"),
        ({"knots": (0.0, 0.5)}, "knots"),
        ({"knots": (0.5, 0.4)}, "knots"),
        ({"knots": (0.5, 1.0)}, "knots"),
        ({"cold": 0.0}, "cold"),
        ({"hot": 0.05}, "hot"),
    ],
)
def test_settings_that_no_search_can_go_by(setting: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=f"can't be searched with: .*{named}"):
        SoftMask(**setting)
