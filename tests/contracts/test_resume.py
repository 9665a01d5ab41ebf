"""A search that is interrupted goes on from its checkpoint, and from no other."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contracts.planted import QUICK, SPECIMEN, assert_same, first, planted, ranked
from contracts.specimen import spread

from pliant.errors import ArtefactError
from pliant.rankers.rank import rank


class Stopped(Exception):
    """The power went off."""


def stop_after(steps: int) -> Callable[[int, float], None]:
    def watch(done: int, loss: float) -> None:
        if done == steps:
            raise Stopped

    return watch


@pytest.mark.parametrize("steps", range(1, 10))
def test_a_search_that_was_stopped_goes_on_as_if_nothing_had_happened(steps: int, tmp_path: Path) -> None:
    """Snapshots are taken at steps 3, 6 and 9; before the first, it starts over."""
    checkpoint = tmp_path / "search.safetensors"
    with pytest.raises(Stopped):
        ranked("soft-mask", checkpoint=checkpoint, watch=stop_after(steps))
    assert checkpoint.exists() == (steps >= 3)
    seen: list[int] = []
    again = ranked("soft-mask", checkpoint=checkpoint, resume=True, watch=lambda done, loss: seen.append(done))
    assert seen == list(range(steps // 3 * 3 + 1, 10))
    assert_same(again, first("soft-mask"))


def test_stopped_twice_and_read_once(tmp_path: Path) -> None:
    checkpoint = tmp_path / "search.safetensors"
    for steps, resume in ((4, False), (7, True)):
        with pytest.raises(Stopped):
            ranked(
                "soft-mask",
                checkpoint=checkpoint,
                resume=resume,
                watch=stop_after(steps),
                batches=iter(SPECIMEN.batches()),
            )
    assert_same(
        ranked("soft-mask", checkpoint=checkpoint, resume=True, batches=iter(SPECIMEN.batches())), first("soft-mask")
    )


def test_without_resume_it_starts_over(tmp_path: Path) -> None:
    checkpoint = tmp_path / "search.safetensors"
    checkpoint.write_bytes(b"something else")
    seen: list[int] = []
    ranked("soft-mask", checkpoint=checkpoint, watch=lambda done, loss: seen.append(done))
    assert seen[0] == 1


CHANGES: dict[str, dict[str, Any]] = {
    "steps": {"settings": replace(QUICK, steps=12)},
    "step size": {"settings": replace(QUICK, rate=0.1)},
    "ladder": {"settings": replace(QUICK, ladder=(0.5,))},
    "seed": {"seed": 1},
    "rest": {"rest": "zero"},
    "objective": {"objective": spread},
    "pooling": {"pooling": "cls"},
    "data": {"batches": SPECIMEN.batches(seed=5)},
}


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkpoint = tmp_path_factory.mktemp("search") / "search.safetensors"
    with pytest.raises(Stopped):
        ranked("soft-mask", checkpoint=checkpoint, watch=stop_after(4))
    return checkpoint


@pytest.mark.parametrize("change", CHANGES)
def test_another_search_does_not_go_on_from_it(change: str, interrupted: Path) -> None:
    with pytest.raises(ArtefactError, match="another search"):
        ranked("soft-mask", checkpoint=interrupted, resume=True, **CHANGES[change])


def test_another_model_does_not_go_on_from_it(interrupted: Path) -> None:
    with pytest.raises(ArtefactError, match="another search"):
        rank(SPECIMEN.model(), SPECIMEN.batches(), settings=QUICK, checkpoint=interrupted, resume=True)


def test_another_precision_does_not_go_on_from_it(interrupted: Path) -> None:
    """Its fingerprint is the same."""
    model = planted()[0].bfloat16()
    with pytest.raises(ArtefactError, match="another search"):
        rank(model, SPECIMEN.batches(), settings=QUICK, checkpoint=interrupted, resume=True)


def test_a_truncated_checkpoint(interrupted: Path, tmp_path: Path) -> None:
    whole = interrupted.read_bytes()
    broken = tmp_path / "broken.safetensors"
    for length in (0, 4, 8, 100, len(whole) // 2, len(whole) - 1):
        broken.write_bytes(whole[:length])
        with pytest.raises(ArtefactError, match="damaged"):
            ranked("soft-mask", checkpoint=broken, resume=True)
