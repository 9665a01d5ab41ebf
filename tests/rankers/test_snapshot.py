from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from pliant.errors import ArtefactError
from pliant.rankers.snapshot import Snapshot, Solution

CPU = torch.device("cpu")


def solution(seed: float) -> Solution:
    rest = tuple(torch.full((2,), site + seed) for site in range(11))
    return Solution(torch.full((5,), seed), rest, torch.full((2, 1, 2, 3), seed))


def made(step: int = 3) -> Snapshot:
    generator = torch.Generator().manual_seed(step)
    return Snapshot(
        identity="this search",
        measured=tuple(torch.full((2,), float(site)) for site in range(11)),
        present=solution(0.5),
        best=solution(-0.25),
        means=tuple(torch.randn(size, generator=generator) for size in (5, 2)[: 2 * step]),
        squares=tuple(torch.rand(size, generator=generator) for size in (5, 2)[: 2 * step]),
        best_loss=0.1 + 0.2,
        best_step=2,
        losses=torch.rand(step, generator=generator, dtype=torch.float64),
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    made().save(tmp_path / "snapshot")
    return tmp_path / "snapshot"


def values(snapshot: Any) -> Any:
    """Everything in it, as what can be compared."""
    if isinstance(snapshot, torch.Tensor):
        return snapshot.tolist()
    if isinstance(snapshot, tuple):
        return [values(part) for part in snapshot]
    return {name: values(part) for name, part in vars(snapshot).items()} if is_dataclass(snapshot) else snapshot


def test_every_bit_comes_back(saved: Path) -> None:
    assert values(Snapshot.load(saved, "this search", CPU)) == values(made())


def test_before_the_first_judgement(tmp_path: Path) -> None:
    early = replace(made(0), best_loss=float("inf"))
    early.save(tmp_path / "snapshot")
    assert values(Snapshot.load(tmp_path / "snapshot", "this search", CPU)) == values(early)


def test_saving_replaces_in_one_step(saved: Path) -> None:
    made(4).save(saved)
    assert Snapshot.load(saved, "this search", CPU).step == 4
    assert list(saved.parent.iterdir()) == [saved]


def test_another_search(saved: Path) -> None:
    with pytest.raises(ArtefactError, match=r"another search.*remove it"):
        Snapshot.load(saved, "that search", CPU)


def test_every_length_of_a_truncated_file(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in range(0, len(whole), 7):
        saved.write_bytes(whole[:length])
        with pytest.raises(ArtefactError, match=r"damaged|another"):
            Snapshot.load(saved, "this search", CPU)


def test_a_flipped_byte_in_the_tensors(saved: Path) -> None:
    whole = bytearray(saved.read_bytes())
    whole[-3] ^= 1
    saved.write_bytes(whole)
    with pytest.raises(ArtefactError, match="altered or damaged"):
        Snapshot.load(saved, "this search", CPU)


@pytest.mark.parametrize("metadata", [None, {"snapshot": "{"}, {"snapshot": "{}"}], ids=["none", "broken", "empty"])
def test_another_safetensors_file(metadata: dict[str, str] | None, tmp_path: Path) -> None:
    save_file({"scores": torch.zeros(3)}, tmp_path / "file", metadata=metadata)
    with pytest.raises(ArtefactError, match=r"damaged|another search"):
        Snapshot.load(tmp_path / "file", "this search", CPU)
