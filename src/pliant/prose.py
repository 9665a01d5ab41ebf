"""English prose out of source files and reST: markup removed, code left out, sentences told apart."""

import random
import re
from collections.abc import Iterator

_HYPHENATED = re.compile(r"(?<=[^\W\d_])-[ \t]*\n\s*(?=[^\W\d_])")
_MARKUP = (
    (re.compile(r"::(?=\s|$)"), ":"),
    (re.compile(r":(?:\w+:)?\w+:`~?[!.]?([^`<]+?)\s*(?:<[^`>]*>)?`"), r"\1"),
    (re.compile(r"``([^`\n]+(?:\n[^`\n]+)?)``"), r"\1"),
    (re.compile(r"`([^`'\n]+)[`']_{0,2}"), r"\1"),
    (re.compile(r"(?<![\w*])\*{1,2}(\w(?:[^*]{0,60}[\w.,!?])?)\*{1,2}(?![\w*])"), r"\1"),
    (re.compile(r"\s*\[(?:\d+|#\w*)\]_?(?=[\s.,;:)]|$)"), ""),
)
_MARKER = re.compile(r"^(?:[*•+-]|\(?(?:\d{1,2}|[a-z])[.)]|\[\d+\]|X{3,}:?|[A-Z]{4,}:)\s+")
_SENTENCE_END = re.compile(
    r"(?:(?<=[.!?])|(?<=[.!?][)\"'”]))(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!cf\.)(?<!vs\.)(?<!\.\.\.)\s+(?=[\"'(“]?[A-Z])"
)
_WORD = re.compile(r"[(\"'“‘]*[A-Za-z](?:[A-Za-z'’/-]*[A-Za-z])?[.,;:!?)\"'”’]*")
_CODE = re.compile(
    r"[|{}\[\]<>\\^~]|::|:=|==|!=|->| = |\w=\w|--|\+\+|://|%[sdr]|@\w|;$|_{3}|\*{3}|\"\""  # operators, formats, rules
    r"|\.\.\.\s|^PEP \d+ -"  # ellipses and cross-references
)
_FUNCTION_WORDS = frozenset(
    "a an and are as be but by can do for from has have if in into is it its may must no not of on or should so that "
    "the then there these they this to use was we when which will with you".split()
)


def plain(text: str) -> str:
    """Return reST or comment `text` on one line, without its markup and the hyphens of wrapped words' line ends."""
    text = _HYPHENATED.sub("-", text)
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def sentences(text: str) -> list[str]:
    """Split one-line prose into its sentences."""
    return _SENTENCE_END.split(_MARKER.sub("", text))


def is_sentence(text: str) -> bool:
    """Tell an English sentence from code, headings, tables and grammar productions."""
    words = text.split()
    if not words or not re.match(r"[\"'(“]?[A-Z]", text) or text.endswith((":", ",", "...")) or _CODE.search(text):
        return False
    english = sum(_WORD.fullmatch(word) is not None for word in words)
    return english >= 0.75 * len(words) and any(word.lower() in _FUNCTION_WORDS for word in words)


def passages(paragraph: list[str], generator: random.Random, longest: int = 100) -> Iterator[str]:
    """Join a paragraph's sentences into passages of one to four sentences and 5 to `longest` words.

    A sentence that is not prose ends the passage before it and is left out.
    """
    passage: list[str] = []
    wanted = generator.randint(1, 4)
    for sentence in [*paragraph, ""]:
        words = sum(len(part.split()) for part in passage)
        fits = is_sentence(sentence) and len(passage) < wanted and words + len(sentence.split()) <= longest
        if not fits:
            if 5 <= words <= longest:
                yield " ".join(passage)
            passage, wanted = [], generator.randint(1, 4)
        if is_sentence(sentence):
            passage.append(sentence)
