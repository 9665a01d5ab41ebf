import hashlib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

import pytest
import torch
from evaluation.tasks.labelled import Sized
from torch import Tensor

from pliant.conventions import Prompts
from pliant.errors import InputError, MissingExtraError
from pliant.evaluation.reading import Reading
from pliant.evaluation.retrieval import ndcg
from pliant.evaluation.similarity import similarities
from pliant.evaluation.tasks.mteb import SAME, Mteb, load_task
from pliant.evaluation.tasks.sts import spearman
from pliant.evaluation.tasks.task import Size

pytest.importorskip("mteb")
OWN = "evaluation.tasks.mteb_tasks"


def reading_of(items: Sequence[Any]) -> Reading:
    return Reading(items, lambda found: [], "mean")


def embedder(seed: str) -> Callable[[Sequence[str]], Tensor]:
    """Gives each text a vector of its own, which depends on nothing else."""

    def embed(texts: Sequence[str]) -> Tensor:
        found = [hashlib.sha256(f"{seed} {text}".encode()).digest()[:6] for text in texts]
        return torch.tensor([[byte - 127.5 for byte in vector] for vector in found])

    return embed


def sized(seed: str, others: Mapping[float, Size] = MappingProxyType({})) -> Sized:
    return Sized(lambda reading: embedder(seed)(reading.items), others)


FULL = sized("full")
SLIM = sized("slim", {0.0: FULL, 0.3: sized("third")})


def expected(queries: str, documents: str, prompts: Prompts) -> float:
    from evaluation.tasks.mteb_tasks import DOCUMENTS, QUERIES

    asked = embedder(queries)([prompts.query + text for text in QUERIES])
    found = embedder(documents)([prompts.document + text for text in DOCUMENTS])
    return ndcg(asked, found, [{i} for i in range(len(QUERIES))])


@pytest.mark.parametrize(("documents_at", "documents"), [(0.0, "full"), (SAME, "slim"), (0.3, "third")])
def test_queries_by_one_size_and_documents_by_another(documents_at: float | None, documents: str) -> None:
    task = Mteb(load_task(f"{OWN}:Search"), reading_of, documents_at=documents_at)
    (name, metric), *others = task.score(FULL, SLIM).items()
    assert name == "mteb.OurSearch" and not others and task.readings == ()
    assert metric.value == pytest.approx(expected("slim", documents, Prompts()), abs=1e-5)
    assert metric.low is None
    assert task.score(FULL, FULL)[name].value == pytest.approx(expected("full", "full", Prompts()), abs=1e-5)


def test_prompts() -> None:
    prompts = Prompts("ask: ", "tell: ")
    task = Mteb(load_task(f"{OWN}:Search"), reading_of, prompts=prompts)
    found = task.score(FULL, SLIM)["mteb.OurSearch"].value
    assert found == pytest.approx(expected("slim", "full", prompts), abs=1e-5)
    assert abs(found - expected("slim", "full", Prompts())) > 0.01


def test_pairs_are_embedded_as_queries() -> None:
    from evaluation.tasks.mteb_tasks import FIRST, SCORES, SECOND

    task = Mteb(load_task(f"{OWN}:Pairs"), reading_of, prompts=Prompts("ask: ", "tell: "))
    first, second = (embedder("slim")(["ask: " + text for text in texts]) for texts in (FIRST, SECOND))
    wanted = spearman(similarities(first, second)[None], torch.tensor([SCORES])).item()
    assert task.score(FULL, SLIM)["mteb.OurPairs"].value == pytest.approx(wanted, abs=1e-5)


def test_images() -> None:
    def colors(reading: Reading) -> Tensor:
        return torch.tensor([[float(value) for value in image.getpixel((0, 0))] for image in reading.items])

    size = Sized(colors)
    found = Mteb(load_task(f"{OWN}:Colors"), reading_of, "image").score(size, size)
    assert found["mteb.OurColors"].value == 1.0
    with pytest.raises(InputError, match=r"OurColors failed: .*modalities"):
        Mteb(load_task(f"{OWN}:Colors"), reading_of, "text").score(size, size)


def test_every_size_draws_alike() -> None:
    task = Mteb(load_task(f"{OWN}:Draws"), reading_of)
    first, second = (task.score(FULL, SLIM)["mteb.OurDraws"].value for _ in range(2))
    assert first == second == task.task.np_rng.random() + task.task.rng_state.random()


def test_what_is_no_task_is_refused() -> None:
    with pytest.raises(InputError, match=r"no task 'nfcorpsu'. Names like it: (\w|\W)*NFCorpus\b.* module:class"):
        load_task("nfcorpsu")
    with pytest.raises(InputError, match=r"no task ''. mteb.get_tasks"):
        load_task("")
    with pytest.raises(InputError, match="has no function 'Nothing'"):
        load_task(f"{OWN}:Nothing")
    with pytest.raises(InputError, match=r"no task of MTEB. Name a subclass of mteb.AbsTask"):
        load_task("builtins:dict")
    with pytest.raises(InputError, match=r"metadata can't be made: .* missing 3 required.* Correct it"):
        load_task(f"{OWN}:metadata")


@pytest.mark.parametrize("name", ["NFCorpus", "CQADupstackRetrieval", f"{OWN}:Nowhere"])
def test_data_that_is_out_of_reach(name: str) -> None:
    with pytest.raises(InputError, match=f"MTEB's {name} can't be fetched: Couldn't reach .* where there is a network"):
        load_task(name)


def test_a_task_that_fails_is_named() -> None:
    with pytest.raises(InputError, match=r"MTEB's OurBroken failed: Nothing to compare. Leave it out."):
        Mteb(load_task(f"{OWN}:Broken"), reading_of).score(FULL, SLIM)
    task = load_task(f"{OWN}:Draws")
    task.score = float("nan")
    with pytest.raises(InputError, match="OurDraws has a main score of nan"):
        Mteb(task, reading_of).score(FULL, SLIM)


def test_our_own_errors_come_through() -> None:
    def refuse(reading: Reading) -> Tensor:
        raise InputError("The model can't take these inputs.")

    with pytest.raises(InputError, match=r"^The model can't take these inputs.$"):
        Mteb(load_task(f"{OWN}:Search"), reading_of).score(Sized(refuse), Sized(refuse, {0.0: Sized(refuse)}))


def test_it_is_quiet_and_leaves_things_as_they_were(capfd: pytest.CaptureFixture[str]) -> None:
    datasets = import_module("datasets")
    level = logging.getLogger("mteb").level
    Mteb(load_task(f"{OWN}:Search"), reading_of).score(FULL, SLIM)
    assert capfd.readouterr() == ("", "")
    assert datasets.is_progress_bar_enabled() and logging.getLogger("mteb").level == level


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pliant\[mteb\]'"):
        load_task("NFCorpus")
