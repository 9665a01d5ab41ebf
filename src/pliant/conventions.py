"""How a checkpoint's own files say that it is to be used: its pooling, its prompts, its longest text."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pliant.errors import InputError
from pliant.pooling import POOLINGS

MANIFEST = "pliant.json"
"""The file that makes a directory one of ours."""

# What sentence-transformers calls a pooling, and that of ours whose embeddings have the same directions.
_KNOWN = {"cls": "cls", "mean": "mean", "mean_sqrt_len_tokens": "mean", "lasttoken": "last", "last": "last"}

# Its older files have a flag for each pooling.
_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}

# Its modules that leave an embedding's direction as it is.
_HARMLESS = frozenset({"Transformer", "Pooling", "Normalize", "Dropout"})

# The names that it looks for, in this order.
_QUERY, _DOCUMENT = ("query",), ("document", "passage", "corpus")

_CARD_METADATA = re.compile(r"\A\s*---\s*\n(.*?)\n---\s*(?:\n|\Z)", re.DOTALL)
_CARD_POOLING = re.compile(r"^pooling(?:_mode)?:[ \t]*[\"']?(\w+)[\"']?[ \t]*$", re.MULTILINE)
_CARD_PROMPTS = re.compile(r"[\"'`]((?:search_)?(?:query|passage|document): )")


@dataclass(frozen=True)
class Prompts:
    """What is put before texts.

    Args:
        query: Before queries.
        document: Before documents.
    """

    query: str = ""
    document: str = ""

    @property
    def distinct(self) -> tuple[str, ...]:
        """Each prompt once; none at all where neither queries nor documents have one."""
        return tuple(dict.fromkeys((self.query, self.document))) if self.query or self.document else ()


@dataclass(frozen=True)
class Conventions:
    """How a checkpoint is to be used.

    Args:
        pooling: Its pooling; None where its files name none, or one that pliant doesn't know.
        source: What names it.
        unknown: What that calls it, where pliant doesn't know it.
        prompts: What comes before its queries and documents.
        prompt_is_pooled: Whether the prompt's own tokens count in its pooling.
        notes: What else a user should know; full sentences.
    """

    pooling: str | None = None
    source: str = ""
    unknown: str = ""
    prompts: Prompts = Prompts()
    prompt_is_pooled: bool = True
    notes: tuple[str, ...] = ()


def conventions_of(directory: Path) -> Conventions:
    """Read how a checkpoint is to be used.

    What pliant wrote about its pooling counts before the files of sentence-transformers, and those before the metadata
    of the model card.

    Args:
        directory: The checkpoint's directory.

    Raises:
        InputError: A file can't be read.
    """
    file = _pooling_file(directory)
    config = read_json(directory / file)
    found = _of_pooling(directory, file, config)
    prompts = _prompts(read_json(directory / "config_sentence_transformers.json"))
    notes = (
        *_notes_of_pooling(config, found.pooling),
        *_notes_of_modules(directory),
        *_notes_of_card(directory, prompts),
    )
    return replace(found, prompts=prompts, prompt_is_pooled=config.get("include_prompt") is not False, notes=notes)


def _of_pooling(directory: Path, file: str, config: Mapping[str, Any]) -> Conventions:
    """Return the conventions as far as they are of the pooling."""
    own = read_json(directory / MANIFEST).get("pooling")
    if own is not None:
        return Conventions(own, MANIFEST)
    modes = _modes(config)
    if modes:
        known = _KNOWN.get(modes[0]) if len(modes) == 1 else None
        return Conventions(known, file, "" if known else " and ".join(modes))
    card = _CARD_POOLING.search(_card_metadata(directory))
    if card is None:
        return Conventions()
    known = card[1] if card[1] in POOLINGS else _KNOWN.get(card[1])
    return Conventions(known, "the model card", "" if known else card[1])


def _modes(config: Mapping[str, Any]) -> Sequence[str]:
    """Return the poolings that sentence-transformers puts side by side; usually one."""
    mode = config.get("pooling_mode")
    if mode is not None:
        return [str(one) for one in mode] if isinstance(mode, list) else [str(mode)]
    flags = [flag for flag in _FLAGS if flag in config]
    chosen = [_FLAGS[flag] for flag in flags if config[flag]]
    # Where every flag is off, it takes the mean.
    return chosen or (["mean"] if flags else [])


def _pooling_file(directory: Path) -> str:
    folders = [path for kind, path in _modules(directory) if kind == "Pooling"]
    return f"{folders[0] if folders else '1_Pooling'}/config.json"


def _notes_of_pooling(config: Mapping[str, Any], pooling: str | None) -> list[str]:
    if pooling == "mean" and _modes(config) == ["mean_sqrt_len_tokens"]:
        return ["Its own pooling, mean_sqrt_len_tokens, gives longer vectors of the same directions as the mean."]
    return []


def _notes_of_modules(directory: Path) -> list[str]:
    others = [f"{path} ({kind})" for kind, path in _modules(directory) if kind not in _HARMLESS]
    if not others:
        return []
    return [
        f"Its sentence-transformers pipeline also has {', '.join(others)}, which pliant leaves out: embeddings are "
        "ranked and measured as they are without."
    ]


def _prompts(config: Mapping[str, Any]) -> Prompts:
    named = config.get("prompts")
    prompts = {name: text for name, text in named.items() if isinstance(text, str)} if isinstance(named, dict) else {}
    default = prompts.get(str(config.get("default_prompt_name")), "")

    def first(names: tuple[str, ...]) -> str:
        return next((prompts[name] for name in names if name in prompts), default)

    return Prompts(first(_QUERY), first(_DOCUMENT))


def _notes_of_card(directory: Path, prompts: Prompts) -> list[str]:
    """Return what a card says of prompts in words, where no file says it in a form to rely on."""
    mentioned = _CARD_PROMPTS.findall(_card(directory))
    query = next((text for text in mentioned if "query" in text), None)
    document = next((text for text in mentioned if "query" not in text), None)
    if prompts.distinct or query is None or document is None:
        return []
    return [
        f'Its model card speaks of texts that begin with "{query}" and "{document}". If it was trained so, pass '
        f'--query-prompt "{query}" --document-prompt "{document}".'
    ]


def _card_metadata(directory: Path) -> str:
    found = _CARD_METADATA.match(_card(directory))
    return "" if found is None else found[1]


def _card(directory: Path) -> str:
    try:
        return (directory / "README.md").read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        # A card is for people; what can't be read says nothing.
        return ""


def max_tokens(directory: Path) -> int:
    """Return the longest text that a checkpoint is meant for, in tokens.

    Raises:
        InputError: Its files can't be read, or give no positive integer.
    """
    own = read_json(directory / "sentence_bert_config.json").get("max_seq_length")
    positions = read_json(directory / "config.json").get("max_position_embeddings")
    longest = own or positions or 512
    if not isinstance(longest, int) or longest < 1:
        raise InputError(
            f"{directory} says that its longest text has {longest!r} tokens. "
            "Correct max_seq_length in sentence_bert_config.json, or max_position_embeddings in config.json."
        )
    return longest


def module_folders(directory: Path) -> set[str]:
    """Return the folders of a sentence-transformers directory that belong to it, such as `1_Pooling`.

    Raises:
        InputError: The list of them can't be read.
    """
    # The module that is the directory itself has no path, or a dot.
    return {path.parts[0] for _, name in _modules(directory) if (path := Path(name)).parts}


def _modules(directory: Path) -> list[tuple[str, str]]:
    """Return the class and the path of each module of a sentence-transformers directory."""
    modules = _parsed(directory / "modules.json")
    found = [module for module in modules if isinstance(module, dict)] if isinstance(modules, list) else []
    return [
        (str(module.get("type")).rpartition(".")[2], module["path"])
        for module in found
        if isinstance(module.get("path"), str)
    ]


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one when there is no file.

    Raises:
        InputError: The file can't be read.
    """
    found = _parsed(path)
    return found if isinstance(found, dict) else {}


def _parsed(path: Path) -> Any:
    """Return what a JSON file holds; None when there is no file."""
    try:
        # A path that a file names may be one that no system has.
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"Can't read {path}: {error}. Copy the checkpoint again.") from error
