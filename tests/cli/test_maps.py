"""Output maps from the command line: which cuts get one, what refuses, and what later commands make of them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pliant.artefacts import RANKING, load_cut, load_elastic, write_elastic
from pliant.budget import Alignment
from pliant.checkpoint import open_checkpoint
from pliant.compensation import LADDER, fit_output_maps
from pliant.elastic import load
from pliant.ranking import Ranking

Run = Callable[..., Any]
Refused = Callable[..., str]
QUICK = ("--ranker", "fisher", "--batch-size", 8, "--quiet")


def sparsities(directory: Path) -> list[float] | None:
    story = load_elastic(directory)[1].provenance.get("output_maps")
    return story and story["sparsities"]


@pytest.fixture
def ranked(pliant: Run, model: Path, texts: Path, tmp_path: Path) -> Callable[..., Path]:
    """Ranks the text model with these options."""

    def run(*options: object) -> Path:
        out = tmp_path / "ranked"
        assert pliant("rank", model, "--data", texts, "--out", out, *QUICK, *options).status == 0
        return out

    return run


def test_by_default_the_ladder_has_maps(ranked: Callable[..., Path]) -> None:
    out = ranked()
    assert set(sparsities(out) or ()) <= set(LADDER) and len(sparsities(out) or ()) > 3
    assert load_elastic(out)[1].output_maps is not None


@pytest.mark.parametrize(("asked", "expected"), [("0.25, 0.5", [0.25, 0.5]), ("none", None), ("None ", None)])
def test_sizes_that_were_asked_for(ranked: Callable[..., Path], asked: str, expected: list[float] | None) -> None:
    assert sparsities(ranked("--output-maps", asked)) == expected


@pytest.mark.parametrize("options", [("--rest", "zero"), ("--pooling", "pooler")])
def test_where_there_are_none_by_default(ranked: Callable[..., Path], options: tuple[str, str]) -> None:
    assert sparsities(ranked(*options)) is None


@pytest.mark.parametrize(
    "options",
    [
        ("--objective", "tokens"),
        ("--objective", "pooled+tokens"),
        ("--pooling", "tokens"),
        ("--pooling", "pooler", "--objective", "pooled+tokens", "--output-maps", "0.4,0.5"),
    ],
)
def test_where_tokens_are_kept_they_are_fitted_to(ranked: Callable[..., Path], options: tuple[str, ...]) -> None:
    ranking = load_elastic(ranked(*options))[1]
    assert ranking.provenance["output_maps"]["pooling"] == "tokens"
    assert ranking.output_maps is not None


@pytest.mark.parametrize("asked", ["0", "1", "nan", "-0.5", "0.5,1.5", "half", "", ","])
def test_what_is_no_size(refused: Refused, model: Path, texts: Path, tmp_path: Path, asked: str) -> None:
    message = refused("rank", model, "--data", texts, "--out", tmp_path / "e", *QUICK, "--output-maps", asked)
    assert "--output-maps" in message and "0.3,0.5" in message


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--pooling", "pooler", "--output-maps", "0.5"), "cls, mean, last, tokens"),
        (("--pooling", "pooler", "--objective", "pooled", "--output-maps", "0.5"), "cls, mean, last, tokens"),
        (("--output-maps", "0.5,0.9999"), "the smallest cut has"),
    ],
)
def test_what_cannot_be_fitted_is_refused_before_the_search(
    refused: Refused,
    model: Path,
    texts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    expected: str,
) -> None:
    """A search may take hours."""

    def search(*arguments: object, **settings: object) -> None:
        raise AssertionError("it began")

    monkeypatch.setattr("pliant.cli.rank.rank_model", search)
    # Without sublayers that can be emptied as a whole, which no constant stands in for in some families.
    monkeypatch.setattr("pliant.budget.Alignment.least", lambda alignment, site: alignment.step(site))
    assert expected in refused("rank", model, "--data", texts, "--out", tmp_path / "e", *options)


def test_cut_and_eval_use_them(pliant: Run, ranked: Callable[..., Path], tmp_path: Path) -> None:
    out = ranked("--output-maps", "0.5")
    elastic = load(out)
    cost = elastic.cost(elastic.plan(sparsity=0.5))
    result = pliant("cut", out, "--sparsity", 0.5, "--out", tmp_path / "cut", "--json")
    assert json.loads(result.out)["parameters"] == cost.parameters
    assert sum(parameter.numel() for parameter in load_cut(tmp_path / "cut").parameters()) == cost.parameters
    assert elastic.anatomy.output is not None
    width = elastic.anatomy.output.width
    elastic.use_output_maps_(None)
    assert cost.parameters - elastic.cost(elastic.plan(sparsity=0.5)).parameters == width * (width + 1)


def test_rivals_get_maps_too(
    pliant: Run, ranked: Callable[..., Path], texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a comparison would credit the ranking with what the maps do."""
    from pliant.cli import maps

    fitted: list[tuple[Any, ...]] = []
    original = fit_output_maps

    def spy(elastic: Any, batches: Any, **options: Any) -> None:
        fitted.append((options["sparsities"], options["pooling"], elastic.alignment))
        original(elastic, batches, **options)

    out = ranked("--output-maps", "0.3,0.6")
    ranking = Ranking.load(out / RANKING)
    assert ranking.output_maps is not None
    # As on a device of another kind, where other widths are usual.
    ranking = replace(ranking, output_maps=replace(ranking.output_maps, alignment=torch.tensor([4, 1])))
    checkpoint = open_checkpoint(str(out))
    out = tmp_path / "other"
    write_elastic(out, checkpoint, ranking)
    monkeypatch.setattr(maps, "fit_output_maps", spy)
    options = ("--data", texts, "--sparsity", "0.3", "--against", "magnitude", "--quiet")
    assert pliant("eval", out, *options).status == 0
    assert fitted == [([0.3, 0.6], "mean", Alignment(neurons=4))]
