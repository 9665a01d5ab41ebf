import pytest

from pliant.evaluation.formatting import asked, percent, quantity, ratio, score


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (912, "912"),
        (1234, "1.23 k"),
        (999_400, "999 k"),
        (999_600, "1.00 M"),
        (9_994_000, "9.99 M"),
        (9_996_000, "10.0 M"),
        (22_713_216, "22.7 M"),
        (5.8e9, "5.80 G"),
    ],
)
def test_quantities_have_three_digits(number: float, shown: str) -> None:
    assert quantity(number).replace("\N{NO-BREAK SPACE}", " ") == shown


def test_shares_and_scores() -> None:
    assert percent(0.9951, 1) == "99.5\N{NO-BREAK SPACE}%"
    assert asked(0.625) == "62.5\N{NO-BREAK SPACE}%"
    assert asked(0.07) == "7\N{NO-BREAK SPACE}%"
    assert score(0.88649) == "0.886"
    assert percent(None) == score(None) == "–"


def test_no_ratio_without_both_numbers() -> None:
    assert ratio(1.0, 4.0) == 0.25
    assert ratio(0.0, 4.0) == 0.0
    assert ratio(None, 4.0) is ratio(1.0, None) is ratio(1.0, 0.0) is None
