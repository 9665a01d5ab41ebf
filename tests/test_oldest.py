from importlib.metadata import version
from typing import Any

import pytest
from oldest import check, main, oldest, project


def with_requirements(*core: str, **extras: str) -> dict[str, Any]:
    return {"dependencies": core, "optional-dependencies": {name: [extra] for name, extra in extras.items()}}


def test_the_bounds_of_this_project_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    found = oldest(project())
    assert found.keys() == {"transformers", "timm"}
    main([])
    assert capsys.readouterr().out.split() == [f"{package}=={bound}" for package, bound in found.items()]


def test_lower_bounds_are_found_wherever_they_are() -> None:
    made = with_requirements("torch", "a>=1.2,<6", b="b[x]>=1.0.9; python_version > '3'", c="a>=1.2")
    assert oldest(made, ("a", "b")) == {"a": "1.2", "b": "1.0.9"}


@pytest.mark.parametrize("requirement", ["a", "a<6", "b>=1"])
def test_no_bound(requirement: str) -> None:
    with pytest.raises(SystemExit, match=r"a one lower bound; found: none"):
        oldest(with_requirements(requirement), ("a",))


def test_two_bounds() -> None:
    with pytest.raises(SystemExit, match=r"\['1', '2'\]"):
        oldest(with_requirements("a>=1", b="a>=2"), ("a",))


def test_another_release_than_the_oldest_is_noticed() -> None:
    check({"torch": version("torch").split("+")[0]})
    with pytest.raises(SystemExit, match=r"torch .* is imported, where 1\.0 was"):
        check({"torch": "1.0"})
