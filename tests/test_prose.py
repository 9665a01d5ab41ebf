"""Markup, sentences and passages."""

import random

import pytest

from pliant.prose import is_sentence, passages, plain, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See :func:`~os.path.join` and :py:class:`the list <list>`.", "See os.path.join and the list."),
        ("Set ``x`` to **two** or\n   *more than two* values.", "Set x to two or more than two values."),
        ("Pass *args and **kwargs on.", "Pass *args and **kwargs on."),
        ("A built-\n   in name [2]_.", "A built-in name."),
        ("For example::", "For example:"),
        ("The `name' of old.", "The name of old."),
    ],
)
def test_plain_removes_markup(text: str, expected: str) -> None:
    assert plain(text) == expected


def test_sentences_are_told_apart() -> None:
    text = 'One (e.g. This one). "Two" is here! (Three is.) Version 3.5 etc. Is four? No... Wait.'
    assert sentences(text) == [
        "One (e.g. This one).",
        '"Two" is here!',
        "(Three is.)",
        "Version 3.5 etc. Is four?",
        "No... Wait.",
    ]
    assert sentences("* A bullet goes.") == ["A bullet goes."]


@pytest.mark.parametrize("text", ["The fish swim in the sea.", "Don't go, the sea is deep", '"Sea" is a word.'])
def test_prose_is_kept(text: str) -> None:
    assert is_sentence(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "for x in the_list: print(x)",
        "X = the value of a",
        "If the value is one of these:",
        "Expression ::= the list",
        "The value | of it",
        "NAME 1 2 3 4 to 5",
        "Heading Without Any Verb",
    ],
)
def test_what_is_no_prose_is_left_out(text: str) -> None:
    assert not is_sentence(text)


def test_passages_join_neighbours_up_to_a_length() -> None:
    paragraph = [f"This is the sentence number {i}." for i in range(200)]
    made = list(passages(paragraph, random.Random(0), longest=20))
    assert " ".join(made) == " ".join(paragraph)
    counts = {len(text.split(". ")) for text in made}
    assert counts == {1, 2, 3}
    assert {len(text.split(". ")) for text in passages(paragraph, random.Random(0))} == {1, 2, 3, 4}


def test_passages_stop_at_what_is_no_prose_and_leave_out_the_too_short_and_long() -> None:
    long = "The " + "very " * 100 + "long one is left out."
    paragraph = ["The first of them is here.", "x = 1", "It is.", "y = 2", long, "The last of them is here."]
    made = list(passages(paragraph, random.Random(0)))
    assert made == ["The first of them is here.", "The last of them is here."]
