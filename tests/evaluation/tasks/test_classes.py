import pytest
from evaluation.tasks.labelled import clouds

from pliant.errors import InputError
from pliant.evaluation.classes import Classes


def test_half_of_each_class_are_examples() -> None:
    labels = ("a",) * 5 + ("b",) * 4 + ("c",)
    classes = Classes.halved(labels)
    assert [sum(labels[index] == name for index in classes.examples) for name in "abc"] == [3, 2, 1]
    assert classes == Classes.halved(labels) and classes != Classes.halved(labels, seed=1)


def test_codes_follow_the_sorted_names() -> None:
    classes = Classes(("b", "a", "c", "b"), frozenset({0, 1}))
    assert classes.names == ("a", "b", "c") and classes.codes.tolist() == [1, 0, 2, 1]
    assert classes.is_example.tolist() == [True, True, False, False]


def test_what_cannot_be_told_apart_is_refused() -> None:
    for labels, examples, message in [
        (("a", "a"), {0}, "At least two"),
        (("a", "b"), set(), "0 examples"),
        (("a", "b"), {0, 1}, "2 examples"),
        (("a", "b", "a"), {5}, r"wrong: \[5\]"),
        (("a", "b", "a"), {0, 2}, "All examples are of the class 'a'"),
        (("a", "b", "c"), {0, 1}, "No class that is to be told, such as 'c', has an example.* 'a' and others"),
    ]:
        with pytest.raises(InputError, match=message):
            Classes(labels, frozenset(examples))
    with pytest.raises(InputError, match="2 inputs of as many classes"):
        Classes.halved(("a", "b"))
    assert len(clouds(9, 3, 2, 0.1)[1].examples) == 6
