import io
from collections.abc import Callable, Sequence
from dataclasses import replace

from evaluation.curves import with_metric, with_tokens
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
    assert row.split() == ["50", "%", "17.4", "M", "4.35", "G", "0.921", "±.004", "0.836"]
    row = [line for line in lines if " 50 % " in line][1]
    assert row.split() == ["50", "%", "17.4", "M", "4.35", "G", "0.858", "±.015", "96.8", "0.842"]
    assert sum(" M " in line for line in lines) == 8
    assert any("62.5 %" in line for line in lines)
    assert "nDCG@10 slim queries 0.886 ±.015" in " ".join(" ".join(lines).split())


def test_other_rankers_stand_beside_and_fit_80_columns(make_curve: Callable[..., Curve]) -> None:
    lines = lines_of([make_curve(), make_curve("fisher", 2.0), make_curve("magnitude", 3.0)])
    rows = [line for line in lines if " 50 % " in line]
    assert [row.split()[-2:] for row in rows] == [["0.843", "0.764"], ["0.829", "0.801"]]
    assert "…" not in "".join(lines)


def test_a_size_that_another_ranker_lacks_has_a_dash(make_curve: Callable[..., Curve]) -> None:
    short = replace(make_curve("fisher"), points=make_curve("fisher").points[:2])
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
    rows = [line for line in lines_of(curves[:1]) if " 50 % " in line]
    assert rows[0].split()[-3:] == ["0.921", "±.004", "0.836"] and rows[1].split()[-1] == "0.500"
    assert any("tokens" in line for line in lines_of(curves[:1]))
    rows = [line for line in lines_of(curves) if " 50 % " in line]
    assert rows[0].split()[-1] == "0.843" and rows[1].split()[-2:] == ["0.500", "0.500"]


def test_tables_fit_80_columns_and_extra_metrics_give_way_to_rivals(make_curve: Callable[..., Curve]) -> None:
    curve = make_curve()
    for name in ("cka", "ndcg_slim_documents", "recall_slim_queries"):
        curve = with_metric(curve, name, lambda point: 1 - point.sparsity)
    alone, beside = lines_of([curve]), lines_of([curve, make_curve("fisher")])
    assert "CKA" in "".join(alone) and "slim docs" in "".join(alone) and "recall" not in "".join(alone)
    assert "CKA" not in "".join(beside) and "slim docs" not in "".join(beside)
    assert max(map(len, alone + beside)) <= 80


def test_a_metric_of_the_user_s_own_has_a_table_of_its_own(make_curve: Callable[..., Curve]) -> None:
    curve = with_metric(make_curve(), "clicks.auc", lambda point: 0.9 - point.sparsity / 10)
    lines = lines_of([curve])
    assert any(line.strip() == "clicks" for line in lines) and any("clicks.auc" in line for line in lines)
    assert "0.850" in next(reversed([line for line in lines if " 50 % " in line]))
