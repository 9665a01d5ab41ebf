from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from evaluation.tiny import Sizes, batches_of, ranking

from pliant.budget import Cut
from pliant.errors import InputError
from pliant.evaluation import cache
from pliant.evaluation.cache import Cache, Shards, default_folder, opened_cache
from pliant.evaluation.curve import Curve
from pliant.evaluation.measure import StoreOf, evaluate
from pliant.evaluation.reading import Collected, Reading
from pliant.evaluation.tasks.dense import Dense
from pliant.evaluation.tasks.fidelity import Fidelity
from pliant.output_maps import OutputMaps

TEXTS = tuple("a" * (1 + 7 * i % 10) for i in range(10))


class Interrupted(BaseException):
    """As Ctrl-C would be."""


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "SHARD_INPUTS", 4)


def reading(tokens: bool = False, texts: Sequence[str] = TEXTS) -> Reading:
    return Reading(texts, batches_of, "mean", tokens)


def measured(
    sizes: Sizes,
    kept: Cache | None,
    sparsities: Sequence[float] = (0.25, 0.5),
    tokens: bool = False,
    progress: Callable[[str, float], None] | None = None,
) -> Curve:
    read = reading(tokens)
    tasks = [Fidelity(read), Dense(read)] if tokens else [Fidelity(read)]
    store_of: StoreOf = lambda reading, cut: Collected() if kept is None else kept.store(ranking(), reading, cut)  # noqa: E731
    return evaluate(
        sizes, sparsities, tasks, model="m", ranker="r", task_name="t", progress=progress, store_of=store_of
    )


@pytest.mark.parametrize("tokens", [False, True])
def test_the_curve_is_that_of_memory(tmp_path: Path, tokens: bool) -> None:
    assert measured(Sizes(), Cache(tmp_path, "x"), tokens=tokens) == measured(Sizes(), None, tokens=tokens)


def test_the_full_model_is_not_run_again_and_finished_sizes_leave_nothing(tmp_path: Path) -> None:
    first = Cache(tmp_path, "x")
    measured(Sizes(), first)
    assert len(list((tmp_path / "unfinished").iterdir())) == 2
    first.finish()
    assert not list((tmp_path / "unfinished").iterdir())
    sizes = Sizes()
    measured(sizes, Cache(tmp_path, "x"), (0.0, 0.5))
    assert {width: model.seen for width, model in sizes.models.items() if model.seen} == {4: 10}


def test_token_outputs_need_the_full_model_each_time(tmp_path: Path) -> None:
    for _ in range(2):
        sizes, kept = Sizes(), Cache(tmp_path, "x")
        measured(sizes, kept, tokens=True)
        kept.finish()
        assert {model.seen for model in sizes.models.values() if model.seen} == {10}


@pytest.mark.parametrize("stop", [2, 6, 8])
@pytest.mark.parametrize("tokens", [False, True])
def test_an_interrupted_measurement_goes_on_where_it_was(tmp_path: Path, stop: int, tokens: bool) -> None:
    def interrupt(label: str, fraction: float) -> None:
        if label.startswith(f"{stop} of"):
            raise Interrupted

    with pytest.raises(Interrupted):
        measured(Sizes(), Cache(tmp_path, "x"), tokens=tokens, progress=interrupt)
    sizes = Sizes()
    assert measured(sizes, Cache(tmp_path, "x"), tokens=tokens) == measured(Sizes(), None, tokens=tokens)
    assert {model.seen for model in sizes.models.values() if model.seen} == {10 - stop}


def test_a_size_that_is_added_runs_alone(tmp_path: Path) -> None:
    measured(Sizes(), Cache(tmp_path, "x"))
    sizes = Sizes()
    assert measured(sizes, Cache(tmp_path, "x"), (0.25, 0.5, 0.75)) == measured(Sizes(), None, (0.25, 0.5, 0.75))
    assert {width: model.seen for width, model in sizes.models.items() if model.seen} == {2: 10}


@pytest.mark.parametrize("damage", ["cut off", "another value", "gone", "no tensors"])
def test_damaged_shards_are_made_again(tmp_path: Path, damage: str) -> None:
    measured(Sizes(), Cache(tmp_path, "x"))
    (folder,) = (tmp_path / "full").iterdir()
    victim = sorted(folder.iterdir())[1]
    content = victim.read_bytes()
    if damage == "gone":
        victim.unlink()
    else:
        broken = {"cut off": content[:-5], "another value": content[:-1] + bytes([content[-1] ^ 1]), "no tensors": b""}
        victim.write_bytes(broken[damage])
    sizes = Sizes()
    assert measured(sizes, Cache(tmp_path, "x")) == measured(Sizes(), None)
    assert sizes.models[8].seen == 6


def test_what_differs_has_another_place(tmp_path: Path) -> None:
    kept, cut, read = Cache(tmp_path, "x"), Sizes().plan(sparsity=0.5), reading()
    other = replace(ranking(), scores=ranking().scores + 1)
    full = [
        kept.store(ranking(), read, None),
        kept.store(ranking(), reading(texts=TEXTS[1:]), None),
        kept.store(ranking(), Reading(TEXTS, batches_of, "cls"), None),
        kept.store(ranking(), Reading(TEXTS, batches_of, "mean", settings="at most 9 tokens"), None),
        kept.store(replace(ranking(), fingerprint="g" * 64), read, None),
        Cache(tmp_path, "y").store(ranking(), read, None),
    ]
    slim = [kept.store(ranking(), read, cut), kept.store(other, read, cut)]
    slim.append(kept.store(ranking(), read, Sizes().plan(sparsity=0.25)))
    slim += [kept.store(replace(ranking(), output_maps=maps(cut, bias)), read, cut) for bias in (0.0, 1.0)]
    assert len({store.folder for store in full + slim}) == 11
    # A map of another cut changes nothing.
    elsewhere = replace(ranking(), output_maps=maps(Sizes().plan(sparsity=0.25), 1.0))
    assert kept.store(elsewhere, read, cut).folder == slim[0].folder
    # The same texts, parted in another way.
    assert reading(texts=("ab", "c")).digest != reading(texts=("a", "bc")).digest
    assert kept.store(other, read, None).folder == full[0].folder


def maps(cut: Cut, bias: float) -> OutputMaps:
    """One map."""
    alignment = torch.tensor([1, 1])
    return OutputMaps(torch.tensor([cut.widths]), torch.zeros(1, 2, 2), torch.full((1, 2), bias), alignment)


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"")])
def test_outputs_that_are_lost_during_a_measurement(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    shards = Shards(tmp_path)
    shards.add_(torch.ones(4, 2), None)
    damage(next(tmp_path.iterdir()))
    with pytest.raises(InputError, match=r"deleted or damaged meanwhile.*same command again"):
        shards.outputs(range(4))


def test_what_cannot_be_deleted_is_named(tmp_path: Path) -> None:
    (tmp_path / "000000000000.safetensors").mkdir()
    with pytest.raises(InputError, match=r"000000000000.safetensors is damaged.*--no-cache"):
        Shards(tmp_path)


def test_a_second_process_has_a_place_of_its_own(tmp_path: Path) -> None:
    with opened_cache(tmp_path / "c", "x") as first, opened_cache(tmp_path / "c", "x") as second:
        assert first.folder == tmp_path / "c" and second.folder != first.folder
    with opened_cache(tmp_path / "c", "x") as again:
        assert again.folder == tmp_path / "c"
    with opened_cache(None, "x") as passing:
        assert passing.folder.is_dir()
    assert not passing.folder.exists() and not second.folder.exists()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"Can't write the cache .*--no-cache"), opened_cache(tmp_path / "file", "x"):
        pass


def test_image_files_are_known_by_their_bytes(tmp_path: Path) -> None:
    image = tmp_path / "a.png"
    image.write_bytes(b"one")
    before = Reading([image], batches_of, "mean").digest
    assert Reading([image], batches_of, "mean").digest == before
    image.write_bytes(b"two")
    assert Reading([image], batches_of, "mean").digest != before
    image.unlink()
    with pytest.raises(InputError, match=r"a.png can't be read"):
        _ = Reading([image], batches_of, "mean").digest


def test_what_waits_is_bounded(tmp_path: Path) -> None:
    shards = Shards(tmp_path)
    for _ in range(5):
        shards.add_(torch.ones(3, 2), None)
    assert shards.done == 15 and len(list(tmp_path.iterdir())) == 2
    shards.flush_()
    assert Shards(tmp_path).done == 15
    assert torch.equal(Shards(tmp_path).outputs(range(15)).embeddings, torch.ones(15, 2))


def test_the_folder_follows_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "pliant" / "evaluation"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".cache" / "pliant" / "evaluation"
