from pathlib import Path

import architecture
import pytest
from architecture import RULES, Rule, internal, read

SOURCE = Path(__file__).resolve().parent.parent / "src" / "pliant"
PLIANT = read({path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py"))})


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_pliant_keeps(rule: Rule) -> None:
    found = list(rule(PLIANT))
    assert not found, "\n" + "\n".join(found)


def test_all_of_pliant_is_looked_at() -> None:
    assert len(PLIANT) == len(list(SOURCE.rglob("*.py")))
    found = {target: found.eager for target, found in internal(PLIANT["families.registry"], PLIANT)}
    assert found["anatomy"] and found["families.bert"]


def broken(rule: Rule, sources: dict[str, str]) -> str:
    return "\n".join(rule(read(sources)))


EMPTY = {"errors.py": "", "anatomy.py": "", "elastic.py": "", "ranking.py": "", "rankers/__init__.py": ""}


@pytest.mark.parametrize(
    ("path", "text", "named"),
    [
        ("families/bert.py", "from pliant.elastic import Elastic", "families.bert may not import elastic"),
        ("families/bert.py", "from pliant import elastic", "families.bert may not import elastic"),
        ("families/bert.py", "from .. import elastic", "families.bert may not import elastic"),
        ("families/bert.py", "from ..elastic import Elastic", "families.bert may not import elastic"),
        ("families/bert.py", "import pliant.elastic", "families.bert may not import elastic"),
        ("families/bert.py", "def late():\n    from pliant.elastic import Elastic", "bert.py:2"),
        ("families/bert.py", "from pliant import Elastic", "families.bert may not import pliant"),
        ("rankers/fisher.py", "from pliant.surgery import cut", "rankers.fisher may not import surgery"),
        ("elastic.py", "from pliant.rankers import rank", "elastic may not import rankers"),
        ("demo.py", "from pliant.evaluation.curve import Curve", "demo may not import evaluation.curve"),
        ("novelty.py", "", "novelty has no line in ALLOWED"),
    ],
)
def test_a_wrong_import_is_caught(path: str, text: str, named: str) -> None:
    assert named in broken(architecture.imports_are_allowed, {**EMPTY, path: text})


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("families/bert.py", "from pliant.anatomy import Site\nfrom pliant.families.layout import Layout"),
        ("families/bert.py", "from ..anatomy import Site\nfrom . import layout"),
        ("rankers/fisher.py", "from pliant.ranking import Ranking"),
        ("demo.py", "from pliant.evaluation.retrieval import RetrievalTask"),
        ("elastic.py", "import torch\nimport pliantly"),
    ],
)
def test_a_right_import_passes(path: str, text: str) -> None:
    assert broken(architecture.imports_are_allowed, {**EMPTY, path: text}) == ""


def test_the_two_worlds_may_not_meet_through_a_third_module() -> None:
    sources = {**EMPTY, "rankers/fisher.py": "from pliant.bridge import x", "bridge.py": "import pliant.elastic"}
    assert "rankers.fisher → bridge → elastic" in broken(architecture.worlds_stay_apart, sources)
    sources = {**EMPTY, "elastic.py": "def f():\n    import pliant.bridge", "bridge.py": "import pliant.rankers"}
    assert "elastic → bridge → rankers" in broken(architecture.worlds_stay_apart, sources)


def test_the_two_worlds_may_share_the_ranking_and_types() -> None:
    hint = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pliant.elastic import Elastic\n"
    sources = {**EMPTY, "rankers/fisher.py": hint + "import pliant.ranking", "elastic.py": "import pliant.ranking"}
    assert broken(architecture.worlds_stay_apart, sources) == ""


def test_a_circle_is_caught() -> None:
    sources = {"a.py": "import pliant.b", "b.py": "from pliant.c import x", "c.py": "from pliant import a"}
    assert "circle a → b → c → a" in broken(architecture.no_circles, sources)


def test_a_circle_through_a_subpackage_is_caught() -> None:
    sources = {"a.py": "from pliant.p.q import x", "p/__init__.py": "import pliant.a", "p/q.py": ""}
    assert "circle a → p → a" in broken(architecture.no_circles, sources)


def test_a_circle_with_a_subpackage_of_ones_own_is_caught() -> None:
    sources = {"p/__init__.py": "import pliant.p.q", "p/q.py": "from pliant.p import name"}
    assert "circle p → p.q → p" in broken(architecture.no_circles, sources)


def test_what_makes_no_circle_passes() -> None:
    assert broken(architecture.no_circles, {"a.py": "import pliant.b", "b.py": "def f():\n    import pliant.a"}) == ""
    assert not broken(
        architecture.no_circles,
        {"p/__init__.py": "import pliant.p.q", "p/q.py": "from pliant.p import r", "p/r.py": ""},
    )


@pytest.mark.parametrize(
    "text",
    ["import transformers", "class A:\n    import timm", "try:\n    from PIL import Image\nexcept ImportError: pass"],
)
def test_a_heavy_import_at_the_top_is_caught(text: str) -> None:
    assert "inside the function that needs it" in broken(architecture.heavy_packages_are_lazy, {"data.py": text})


@pytest.mark.parametrize(
    "text",
    [
        "import torch, json\nfrom pliant.errors import InputError",
        "def f():\n    import transformers",
        "async def f():\n    from starlette import routing",
        "import typing\nif typing.TYPE_CHECKING:\n    import transformers",
    ],
)
def test_a_light_or_lazy_import_passes(text: str) -> None:
    assert broken(architecture.heavy_packages_are_lazy, {"data.py": text}) == ""


def test_a_long_module_is_caught() -> None:
    assert "301 lines" in broken(architecture.sizes_are_small, {"a.py": "x = 1\n" * 301})
    assert broken(architecture.sizes_are_small, {"a.py": "x = 1\n" * 300}) == ""


def test_a_long_function_is_caught_and_its_docstring_does_not_count() -> None:
    docstring = '    """Says much.\n' + "    more\n" * 60 + '    """\n'
    assert broken(architecture.sizes_are_small, {"a.py": "def f():\n" + docstring + "    x = 1\n" * 49}) == ""
    assert "f has 51 lines" in broken(
        architecture.sizes_are_small, {"a.py": "def f():\n" + docstring + "    x = 1\n" * 50}
    )


@pytest.mark.parametrize("signature", ["f(x) -> None", "f(*x) -> None", "f(self, *, x) -> None", "f(x: int)"])
def test_an_untyped_signature_is_caught(signature: str) -> None:
    assert "f has no type for" in broken(architecture.signatures_are_typed, {"a.py": f"def {signature}: ..."})


def test_a_typed_signature_passes() -> None:
    assert broken(architecture.signatures_are_typed, {"a.py": "def f(self, x: int, **y: str) -> None: ..."}) == ""


def test_a_result_of_three_things_without_names_is_caught() -> None:
    assert "f returns 3 things" in broken(
        architecture.results_are_named, {"a.py": "def f() -> tuple[int, str, int]: 0"}
    )
    for result in ("tuple[int, str]", "tuple[int, ...]", "dict[str, tuple[int, int, int]]"):
        assert broken(architecture.results_are_named, {"a.py": f"def f() -> {result}: ..."}) == ""
    assert broken(architecture.results_are_named, {"a.py": "def backward(x) -> tuple[int, int, None]: ..."}) == ""


@pytest.mark.parametrize(
    "text",
    ["hasattr(model, 'pooler')", "isinstance(model, BertModel)", "isinstance(model, (A, transformers.ViTModel))"],
)
def test_a_question_for_the_kind_of_model_is_caught(text: str) -> None:
    assert "for a family to ask" in broken(architecture.differences_stay_in_families, {"surgery.py": f"x = {text}"})
    assert broken(architecture.differences_stay_in_families, {"families/bert.py": f"x = {text}"}) == ""


def test_a_question_for_the_library_passes() -> None:
    sources = {"artefacts.py": "isinstance(model, PreTrainedModel), isinstance(model, nn.Module)"}
    assert broken(architecture.differences_stay_in_families, sources) == ""


def test_too_many_public_names_are_caught() -> None:
    names = [f"n{i}" for i in range(13)]
    assert "13 public names" in broken(architecture.public_names_are_few, {"__init__.py": f"__all__ = {names}"})
    assert broken(architecture.public_names_are_few, {"__init__.py": f"__all__ = {names[1:]}"}) == ""


@pytest.mark.parametrize("path", ["utils.py", "a/helpers.py", "common/b.py", "_misc.py", "base_ranker.py", "util.py"])
def test_a_catch_all_is_caught(path: str) -> None:
    assert "a catch-all" in broken(architecture.names_say_something, {path: ""})


def test_a_name_that_only_looks_alike_passes() -> None:
    assert broken(architecture.names_say_something, {"database.py": "", "utility.py": "", "miscount.py": ""}) == ""


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("from torch import *", "import names"),
        ("import pickle", "runs code"),
        ("def f():\n    from joblib import load", "runs code"),
        ("import torch\nx = torch.load('a')", "a.py:2: torch.load unpickles"),
        ("from torch import Tensor, load", "torch.load unpickles"),
        ("numpy.load('a', allow_pickle=True)", "allow_pickle unpickles"),
        ("try: pass\nexcept: pass", "a broad except"),
        ("try: pass\nexcept Exception as e: pass", "a broad except"),
        ("try: pass\nexcept (OSError, BaseException): pass", "a broad except"),
    ],
)
def test_what_is_forbidden_is_caught(text: str, named: str) -> None:
    assert named in broken(architecture.nothing_forbidden, {"a.py": text})


@pytest.mark.parametrize(
    "text",
    [
        "from torch import Tensor",
        "json.load(f)",
        "numpy.load('a', allow_pickle=False)",
        "try: pass\nexcept (OSError, ValueError): pass",
        "try: pass\nexcept MyException: pass",
    ],
)
def test_what_is_not_forbidden_passes(text: str) -> None:
    assert broken(architecture.nothing_forbidden, {"a.py": text}) == ""
