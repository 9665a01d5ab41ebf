import io
from collections.abc import Callable, Sequence

from evaluation.curves import with_tokens
from rich.console import Console

from pliant.evaluation.curve import Curve
from pliant.evaluation.terminal import table


def lines_of(curves: Sequence[Curve], width: int = 80) -> list[str]:
    output = io.StringIO()
    Console(file=output, width=width, color_system=None).print(table(curves))
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in output.getvalue().splitlines()]


def test_one_row_per_size_with_its_numbers(make_curve: Callable[..., Curve]) -> None:
    lines = lines_of([make_curve()])
    row = next(line for line in lines if " 50 % " in line)
    assert row.split() == ["50", "%", "17.4", "M", "4.35", "G", "0.921", "0.836", "0.858", "96.8", "0.842"]
    assert sum(" M " in line for line in lines) == 4
    assert any("62.5 %" in line for line in lines)
    assert "nDCG@10 is 0.886" in " ".join(" ".join(lines).split())


def test_other_rankers_stand_beside_and_fit_80_columns(make_curve: Callable[..., Curve]) -> None:
    lines = lines_of([make_curve(), make_curve("fisher", 2.0), make_curve("magnitude", 3.0)])
    row = next(line for line in lines if " 50 % " in line)
    assert row.split()[-2:] == ["0.843", "0.764"]
    assert "…" not in "".join(lines)


def test_a_size_that_another_ranker_lacks_has_a_dash(make_curve: Callable[..., Curve]) -> None:
    other = make_curve("fisher")
    short = Curve.from_json({**other.to_json(), "points": other.to_json()["points"][:2]})
    assert next(line for line in lines_of([make_curve(), short]) if "62.5 %" in line).split()[-1] == "–"


def test_without_a_task_there_are_no_ndcg_columns(make_curve: Callable[..., Curve]) -> None:
    text = "".join(lines_of([make_curve(retrieval=False)]))
    assert "nDCG" not in text
    assert "worst" in text


def test_names_are_not_markup(make_curve: Callable[..., Curve]) -> None:
    text = "".join(lines_of([make_curve(model="a[red]b"), make_curve("[bold]x", model="a[red]b")]))
    assert "a[red]b" in text


def test_tokens_have_a_column_where_they_were_measured(make_curve: Callable[..., Curve]) -> None:
    curves = [with_tokens(make_curve(retrieval=False)), with_tokens(make_curve("fisher", 2.0, retrieval=False))]
    row = next(line for line in lines_of(curves[:1]) if " 50 % " in line)
    assert row.split()[-3:] == ["0.921", "0.836", "0.500"]
    assert any("tokens" in line for line in lines_of(curves[:1]))
    row = next(line for line in lines_of(curves) if " 50 % " in line)
    assert row.split()[-3:] == ["0.921", "0.500", "0.843"]
