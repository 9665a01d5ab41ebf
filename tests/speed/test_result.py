import json
from typing import Any

import pytest
from speed.specimens import measured

from pliant.errors import InputError
from pliant.speed import Speed


@pytest.mark.parametrize("changes", [{}, {"image_size": (224, 224)}, {"switching": None}, {"cuts": False}])
def test_json_round_trip(changes: dict[str, Any]) -> None:
    speed = measured(**changes)
    assert Speed.from_json(json.loads(json.dumps(speed.to_json(), allow_nan=False))) == speed


def test_ratios_are_those_of_the_numbers_beside_them() -> None:
    speed = measured()
    half = speed.of("view")[2]
    assert speed.speedup(half, 8) == pytest.approx(2) and speed.macs_ratio(half) == pytest.approx(1 / 0.6)
    assert half.timing(8).items_per_second == pytest.approx(8 / 0.040)
    data = speed.to_json()
    original = data["sizes"][0]
    for size in data["sizes"]:
        assert size["macs_ratio"] == original["macs"] / size["macs"]
        for timing, whole in zip(size["timings"], original["timings"], strict=True):
            assert timing["speedup"] == whole["p50_ms"] / timing["p50_ms"]
            assert timing["items_per_second"] == 1000 * timing["batch_size"] / timing["p50_ms"]


def damaged(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    data: Any = json.loads(json.dumps(measured().to_json()))
    place = data
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("format",), 2, "format 1"),
        (("format",), None, "format 1"),
        (("sizes",), "many", "sizes is no list"),
        (("sizes",), [], "begins with the original"),
        (("sizes", 0, "form"), "view", "begins with the original"),
        (("sizes", 1, "form"), "slim", "begins with the original"),
        (("sizes", 1, "macs"), None, r"\['macs'\] are missing"),
        (("sizes", 1, "timings", 0, "p50_ms"), "fast", "p50_ms is 'fast', no number"),
        (("sizes", 1, "timings", 0, "p50_ms"), float("nan"), "p50_ms is nan, no number"),
        (("sizes", 1, "timings", 0, "p50_ms"), 0, "p50_ms is 0"),
        (("sizes", 1, "timings", 0, "batch_size"), 2, "same batch sizes"),
        (("sizes", 1), 7, "timings is no list"),
        (("device",), 7, "device is 7"),
        (("tokens",), True, "tokens is True, no number"),
        (("image_size",), 224, "image_size"),
        (("switching", "count"), None, r"\['count'\] are missing"),
    ],
)
def test_what_was_not_written_by_us_is_refused(path: tuple[Any, ...], value: Any, named: str) -> None:
    with pytest.raises(InputError, match=named):
        Speed.from_json(damaged(path, value))


@pytest.mark.parametrize("data", [[], "speed", {"curves": []}])
def test_other_json_is_refused(data: Any) -> None:
    with pytest.raises(InputError, match="no saved measurement"):
        Speed.from_json(data)
