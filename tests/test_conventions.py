import json
from pathlib import Path
from typing import Any

import pytest

from pliant.conventions import Conventions, Prompts, conventions_of, max_tokens, module_folders, read_json
from pliant.errors import InputError

OLD = "sentence_transformers.models."
NEW = "sentence_transformers.sentence_transformer.modules."


def write(file: Path, content: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


def pipeline(directory: Path, **modules: str) -> None:
    """Write a list of modules: folder by qualified class name; the folder of the first is the directory itself."""
    named = [{"type": kind, "path": "" if index == 0 else path} for index, (path, kind) in enumerate(modules.items())]
    write(directory / "modules.json", named)


def flags(**chosen: bool) -> dict[str, bool]:
    names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    return {f"pooling_mode_{name}": chosen.get(name, False) for name in names}


def test_a_directory_that_says_nothing(tmp_path: Path) -> None:
    assert conventions_of(tmp_path) == Conventions()


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        (flags(cls_token=True), "cls"),
        (flags(mean_tokens=True), "mean"),
        (flags(lasttoken=True), "last"),
        (flags(mean_sqrt_len_tokens=True), "mean"),
        (flags(), "mean"),
        ({"pooling_mode_cls_token": True}, "cls"),
        ({"pooling_mode": "cls", "embedding_dimension": 8}, "cls"),
        ({"pooling_mode": "mean"}, "mean"),
        ({"pooling_mode": "lasttoken"}, "last"),
        ({"pooling_mode": ["lasttoken"]}, "last"),
        ({"pooling_mode": "mean_sqrt_len_tokens"}, "mean"),
        ({"pooling_mode": "cls", **flags(mean_tokens=True)}, "cls"),
    ],
)
def test_the_pooling_of_sentence_transformers(tmp_path: Path, config: dict[str, Any], pooling: str) -> None:
    write(tmp_path / "1_Pooling" / "config.json", config)
    found = conventions_of(tmp_path)
    assert (found.pooling, found.source, found.unknown) == (pooling, "1_Pooling/config.json", "")


def test_a_pooling_with_the_directions_of_the_mean(tmp_path: Path) -> None:
    write(tmp_path / "1_Pooling" / "config.json", {"pooling_mode": "mean_sqrt_len_tokens"})
    (note,) = conventions_of(tmp_path).notes
    assert "mean_sqrt_len_tokens" in note


@pytest.mark.parametrize(
    ("config", "unknown"),
    [
        (flags(max_tokens=True), "max"),
        (flags(weightedmean_tokens=True), "weightedmean"),
        (flags(cls_token=True, mean_tokens=True), "cls and mean"),
        ({"pooling_mode": "weightedmean"}, "weightedmean"),
        ({"pooling_mode": ["mean", "max"]}, "mean and max"),
        ({"pooling_mode": {"a": 1}}, "{'a': 1}"),
        ({"pooling_mode": [["cls"]]}, "['cls']"),
    ],
)
def test_a_pooling_that_is_not_known_is_named(tmp_path: Path, config: dict[str, Any], unknown: str) -> None:
    write(tmp_path / "1_Pooling" / "config.json", config)
    write(tmp_path / "README.md", "---\npooling: mean\n---\n")
    found = conventions_of(tmp_path)
    assert (found.pooling, found.source, found.unknown) == (None, "1_Pooling/config.json", unknown)


@pytest.mark.parametrize("prefix", [OLD, NEW])
def test_the_folder_of_the_pooling_is_looked_up(tmp_path: Path, prefix: str) -> None:
    pipeline(tmp_path, transformer=f"{prefix}Transformer", pool=f"{prefix}pooling.Pooling", norm=f"{prefix}Normalize")
    write(tmp_path / "pool" / "config.json", {"pooling_mode": "lasttoken"})
    write(tmp_path / "1_Pooling" / "config.json", {"pooling_mode": "cls"})
    found = conventions_of(tmp_path)
    assert (found.pooling, found.source, found.notes) == ("last", "pool/config.json", ())


def test_modules_that_are_left_out_are_named(tmp_path: Path) -> None:
    kinds = {"t": "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense", "3_Dense": "Dense", "4": "Normalize"}
    pipeline(tmp_path, **{path: f"{NEW}{kind}" for path, kind in kinds.items()})
    write(tmp_path / "1_Pooling" / "config.json", {"pooling_mode": "mean"})
    (note,) = conventions_of(tmp_path).notes
    assert "2_Dense (Dense), 3_Dense (Dense), which pliant leaves out" in note


def test_the_prompt_may_be_left_out_of_the_pooling(tmp_path: Path) -> None:
    config = write(tmp_path / "1_Pooling" / "config.json", {"pooling_mode": "mean"})
    assert conventions_of(tmp_path).prompt_is_pooled
    write(config, {"pooling_mode": "mean", "include_prompt": False})
    assert not conventions_of(tmp_path).prompt_is_pooled


def test_what_counts_before_what(tmp_path: Path) -> None:
    write(tmp_path / "README.md", "---\nlicense: mit\npooling: last\n---\npooling: cls\n")
    assert conventions_of(tmp_path) == Conventions("last", "the model card")
    write(tmp_path / "1_Pooling" / "config.json", {"pooling_mode": "cls"})
    assert conventions_of(tmp_path) == Conventions("cls", "1_Pooling/config.json")
    write(tmp_path / "pliant.json", {"pooling": "tokens"})
    assert conventions_of(tmp_path) == Conventions("tokens", "pliant.json")


@pytest.mark.parametrize(
    ("card", "pooling", "unknown"),
    [
        ("---\npooling_mode: 'lasttoken'\n---", "last", ""),
        ('---\r\npooling: "pooler"\r\n---\r\n', "pooler", ""),
        ("---\npooling: max\n---\n", None, "max"),
        ("---\nmodel:\n  pooling: cls\n---\n", None, ""),
        ("---\n: [broken\npooling: cls\n---\n", "cls", ""),
        ("pooling: cls\n", None, ""),
        ("---\npooling: cls\n", None, ""),
        ("", None, ""),
    ],
)
def test_the_metadata_of_the_model_card(tmp_path: Path, card: str, pooling: str | None, unknown: str) -> None:
    (tmp_path / "README.md").write_bytes(card.encode())
    found = conventions_of(tmp_path)
    assert (found.pooling, found.unknown) == (pooling, unknown)


def test_a_card_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes(bytes(range(256)))
    assert conventions_of(tmp_path) == Conventions()
    (tmp_path / "README.md").unlink()
    (tmp_path / "README.md").mkdir()
    assert conventions_of(tmp_path) == Conventions()


@pytest.mark.parametrize(
    ("config", "prompts"),
    [
        ({"prompts": {"query": "query: ", "document": "text: "}}, Prompts("query: ", "text: ")),
        ({"prompts": {"query": "q ", "passage": "p ", "corpus": "c "}}, Prompts("q ", "p ")),
        ({"prompts": {"corpus": "c ", "Clustering": "cluster: "}}, Prompts("", "c ")),
        ({"prompts": {"query": "q ", "all": "all: "}, "default_prompt_name": "all"}, Prompts("q ", "all: ")),
        ({"prompts": {"query": "q ", "document": ""}, "default_prompt_name": "query"}, Prompts("q ", "")),
        ({"prompts": {"query": None, "document": 3}}, Prompts()),
        ({"prompts": {"query": "q "}, "default_prompt_name": "other"}, Prompts("q ", "")),
        ({"prompts": ["q "], "default_prompt_name": ["q"]}, Prompts()),
        ({}, Prompts()),
    ],
)
def test_the_prompts_of_sentence_transformers(tmp_path: Path, config: dict[str, Any], prompts: Prompts) -> None:
    write(tmp_path / "config_sentence_transformers.json", config)
    assert conventions_of(tmp_path).prompts == prompts


def test_distinct_prompts() -> None:
    assert Prompts().distinct == ()
    assert Prompts("a", "a").distinct == ("a",)
    assert Prompts("a", "").distinct == ("a", "")
    assert Prompts("a", "b").distinct == ("a", "b")


@pytest.mark.parametrize(
    ("card", "query", "document"),
    [
        ('Texts start with "query: " or "passage: ".', "query: ", "passage: "),
        ("`search_document: a text`, `search_query: a question`", "search_query: ", "search_document: "),
    ],
)
def test_prompts_that_only_the_card_speaks_of(tmp_path: Path, card: str, query: str, document: str) -> None:
    write(tmp_path / "README.md", card)
    (note,) = conventions_of(tmp_path).notes
    assert f'--query-prompt "{query}" --document-prompt "{document}"' in note
    write(tmp_path / "config_sentence_transformers.json", {"prompts": {"query": "query: "}})
    assert conventions_of(tmp_path).notes == ()


@pytest.mark.parametrize("card", ["A `query: ` is asked.", "query: passage: "])
def test_cards_that_speak_of_other_things(tmp_path: Path, card: str) -> None:
    write(tmp_path / "README.md", card)
    assert conventions_of(tmp_path).notes == ()


def test_the_longest_text(tmp_path: Path) -> None:
    assert max_tokens(tmp_path) == 512
    write(tmp_path / "config.json", {"max_position_embeddings": 40})
    assert max_tokens(tmp_path) == 40
    write(tmp_path / "sentence_bert_config.json", {"max_seq_length": 12})
    assert max_tokens(tmp_path) == 12


def test_json_files(tmp_path: Path) -> None:
    assert read_json(tmp_path / "none.json") == {}
    assert read_json(write(tmp_path / "list.json", [1])) == {}
    (tmp_path / "broken.json").write_bytes(b'{"a": ')
    with pytest.raises(InputError, match=r"Can't read .*broken\.json"):
        read_json(tmp_path / "broken.json")


def test_module_folders(tmp_path: Path) -> None:
    assert module_folders(tmp_path) == set()
    write(tmp_path / "modules.json", [{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Dense/inner"}, {"idx": 3}])
    assert module_folders(tmp_path) == {"1_Pooling", "2_Dense"}
    write(tmp_path / "modules.json", {"path": "x"})
    assert module_folders(tmp_path) == set()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("modules.json", "1_Pooling/config.json", "config_sentence_transformers.json"):
        file = write(tmp_path / name, "{")
        with pytest.raises(InputError, match=name):
            conventions_of(tmp_path)
        file.unlink()


def test_against_sentence_transformers_itself(tmp_path: Path) -> None:
    """The files as the library writes them today."""
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    for mode, expected in (("cls", "cls"), ("mean", "mean"), ("lasttoken", "last"), ("max", None)):
        folder = tmp_path / mode / "1_Pooling"
        folder.mkdir(parents=True)
        modules.Pooling(8, mode).save(str(folder))
        assert conventions_of(tmp_path / mode).pooling == expected
