import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from evaluation.tasks.labelled import Sized

from pliant.errors import InputError
from pliant.evaluation.metric import Metric
from pliant.evaluation.reading import Reading
from pliant.evaluation.tasks.function import Function, load_function


def embed(items: Sequence[Any]) -> torch.Tensor:
    return torch.zeros(len(items), 2)


def reading_of(items: Sequence[Any]) -> Reading:
    return Reading(items, lambda found: [], "mean")


def lengths(reading: Reading) -> torch.Tensor:
    return torch.tensor([[float(len(item))] for item in reading.items])


def scored(function: Any) -> dict[str, Metric]:
    sizes = Sized(lengths), Sized(lambda reading: 2 * lengths(reading))
    return dict(Function("mine", function, reading_of).score(*sizes))


def test_it_gets_the_embeddings_of_both_models() -> None:
    assert scored(lambda slim, full: (slim(["aa", "b"]) - full(["aa", "b"])).sum()) == {"mine": Metric(3.0)}


def test_what_it_may_return() -> None:
    found = scored(lambda slim, full: {"hits": 3, "values": torch.tensor([0.0, 1.0]), "sum": torch.tensor(2.5)})
    assert found["mine.hits"] == Metric(3.0) and found["mine.sum"] == Metric(2.5)
    assert found["mine.values"] == Metric(0.5, 0.0, 1.0)
    for wrong in ("high", None, float("nan"), torch.ones(2, 2), torch.tensor([]), {"a": [1]}):
        with pytest.raises(InputError, match="mine returned"):
            scored(lambda slim, full, wrong=wrong: wrong)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda slim, full: 1 / 0, r"failed in test_function.py, line \d+: ZeroDivisionError: division by zero. Corr"),
        (lambda slim, full: sys.exit(3), "SystemExit: 3"),
        (lambda: 1, "TypeError: .*takes 0 positional arguments"),
        (lambda slim, full: slim(None), "TypeError: 'NoneType'"),
        (lambda slim, full: slim([[]]), "AttributeError: 'list'"),
        (lambda slim, full: 10**400, "OverflowError"),
        (lambda slim, full: {}, "mine returned nothing"),
    ],
)
def test_a_function_that_fails(function: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        scored(function)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:", "can't be imported: SyntaxError: invalid syntax"),
        ("from os import nothing_like_it", "in broken_metric.py, line 1: ImportError: cannot import name"),
        ("\n1 / 0", "in broken_metric.py, line 2: ZeroDivisionError"),
    ],
)
def test_a_module_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    (tmp_path / "broken_metric.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        load_function("broken_metric:f")


def test_the_same_inputs_are_one_reading() -> None:
    seen: list[Reading] = []

    def noted(reading: Reading) -> torch.Tensor:
        seen.append(reading)
        return lengths(reading)

    size = Sized(noted)
    task = Function("mine", lambda slim, full: slim(["a"])[0, 0] + full(["a"])[0, 0], reading_of)
    assert task.score(size, size) == {"mine": Metric(2.0)}
    assert len(set(seen)) == 1 and task.readings == ()
    with pytest.raises(InputError, match="one string"):
        Function("mine", lambda slim, full: slim("a"), reading_of).score(size, size)


def test_images_may_be_embedded() -> None:
    image = pytest.importorskip("PIL.Image")
    black, white = (image.new("RGB", (2, 2), color) for color in ("black", "white"))
    seen: list[Reading] = []

    def noted(reading: Reading) -> torch.Tensor:
        seen.append(reading)
        return torch.tensor([[float(item.getpixel((0, 0))[0])] for item in reading.items])

    task = Function(
        "mine", lambda slim, full: slim([white])[0, 0] - full([black])[0, 0] + slim([white])[0, 0], reading_of
    )
    assert task.score(Sized(noted), Sized(noted)) == {"mine": Metric(510.0)}
    assert seen[0] is seen[2] is not seen[1]


def test_functions_are_found_in_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_metric.py").write_text("def score(slim, full):\n    return 1\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert load_function("own_metric:score")(embed, embed) == 1
    assert sys.path == before
    for path, message in [
        ("own_metric:other", "has no function 'other'"),
        ("nowhere_at_all:score", "no module 'nowhere_at_all'"),
        ("own_metric:", "names no function"),
        (":score", "names no function"),
        (".relative:score", "names no function"),
        ("../own_metric:score", "names no function"),
    ]:
        with pytest.raises(InputError, match=message):
            load_function(path)
    monkeypatch.delitem(sys.modules, "own_metric")
