"""The oldest releases that pyproject.toml admits of the packages whose modules the families point at.

Prints them as requirements for pip. With `--check`, fails unless they are the ones that Python imports here.
"""

import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    # A dependency of pytest where Python has no tomllib.
    import tomli as tomllib

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
PACKAGES = ("transformers", "timm")


def project() -> dict[str, Any]:
    return tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]


def requirements(project: dict[str, Any]) -> Iterator[Requirement]:
    yield from map(Requirement, project["dependencies"])
    for extra in project["optional-dependencies"].values():
        yield from map(Requirement, extra)


def oldest(project: dict[str, Any], packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """The lowest release of each package that is admitted everywhere; one without a lower bound is an error."""
    found: dict[str, str] = {}
    for package in packages:
        wanted = [requirement for requirement in requirements(project) if requirement.name == package]
        bounds = {part.version for one in wanted for part in one.specifier if part.operator in (">=", "==")}
        if len(bounds) != 1:
            raise SystemExit(f"pyproject.toml must give {package} one lower bound; found: {sorted(bounds) or 'none'}.")
        found |= {package: bounds.pop()}
    return found


def check(wanted: dict[str, str]) -> None:
    for package, bound in wanted.items():
        if not Requirement(f"{package}=={bound}").specifier.contains(version(package)):
            raise SystemExit(f"{package} {version(package)} is imported, where {bound} was to be tested.")


def main(arguments: list[str]) -> None:
    wanted = oldest(project())
    if arguments == ["--check"]:
        check(wanted)
    print(*(f"{package}=={bound}" for package, bound in wanted.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
