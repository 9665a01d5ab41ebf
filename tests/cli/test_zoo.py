import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from cli.specimens import image_model
from contracts.anatomies import anatomy_of, heads, neurons

from pliant.anatomy import Anatomy, Producer, Site
from pliant.cli.zoo import cells, described, sizes_of
from pliant.cost import cost_of
from pliant.errors import MissingExtraError
from pliant.families import ZOO, Encoder

Run = Callable[..., Any]

MINILM, DEIT3 = "sentence-transformers/all-MiniLM-L6-v2", "timm/deit3_small_patch16_224.fb_in1k"


@pytest.fixture
def one_anatomy(monkeypatch: pytest.MonkeyPatch) -> Callable[[Anatomy], None]:
    """Makes every encoder one of the given anatomy, except timm's, which are not installed."""

    def put(anatomy: Anatomy) -> None:
        def described_as(encoder: Encoder) -> Anatomy:
            if encoder.library == "timm":
                raise MissingExtraError("Describing an encoder of timm", "timm")
            return anatomy

        monkeypatch.setattr(Encoder, "anatomy", described_as)

    return put


def test_an_encoder_is_described_without_weights(pliant: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(name: str) -> NoReturn:
        raise AssertionError(f"{name} was opened")

    monkeypatch.setattr("pliant.cli.describe.open_checkpoint", opened)
    result = pliant("describe", MINILM)
    assert (result.status, result.err) == (0, "")
    assert "9,288 units. 10,632,960 of 22,713,216 parameters" in result.out
    assert "pooling mean, objective pooled\n" in result.out and "Their licence: Apache-2.0" in result.out
    found = json.loads(pliant("describe", "BAAI/bge-small-en-v1.5", "--json", "--tokens", 7).out)
    assert (found["pooling"], found["licence"], found["tokens"]) == ("cls", "MIT", 7)


def test_a_directory_of_that_name_comes_first(pliant: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("facebook/dinov2-small", "zoo"):
        image_model(tmp_path / name)
        assert json.loads(pliant("describe", name, "--json").out)["family"] == "vit"


def test_the_zoo_as_a_table(pliant: Run, one_anatomy: Callable[[Anatomy], None], monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    one_anatomy(anatomy_of([heads(0, 4), neurons(0, 48)]))
    result = pliant("describe", "zoo")
    assert (result.status, result.err) == (0, "")
    assert all(any(line.split()[:1] == [name] for line in result.out.splitlines()) for name in ZOO)
    assert " ".join(result.out.split()).count("pip install 'pliant[timm]'") == 1


def test_the_zoo_as_json(pliant: Run, one_anatomy: Callable[[Anatomy], None]) -> None:
    anatomy = anatomy_of([heads(0, 4), neurons(0, 48)])
    one_anatomy(anatomy)
    found = {row["name"]: row for row in json.loads(pliant("describe", "zoo", "--json", "--tokens", 3).out)["encoders"]}
    assert found.keys() == ZOO.keys()
    assert "timm" in found[DEIT3]["missing"] and "units" not in found[DEIT3]
    row = found[MINILM]
    assert (row["units"], row["total_parameters"], row["tokens"]) == (52, anatomy.total_parameters, 3)
    assert row["macs"] == anatomy.macs(3)
    half = cost_of(anatomy, (2, 24), 3)
    assert (row["half"]["parameters"], row["half"]["macs"]) == (half.parameters, half.macs)


@pytest.mark.parametrize("name", ["facebook/dinov3-vith16plus-pretrain-lvd1689m", "facebook/dinov2-giant", MINILM])
def test_half_of_an_encoder(name: str) -> None:
    sizes = sizes_of(ZOO[name].anatomy())
    assert sizes.half.sparsity == 0.5
    assert sizes.removed_parameters == sizes.anatomy.prunable_parameters / 2
    assert 0.48 < sizes.removed_macs / sizes.whole.macs <= 0.5


def test_half_of_dinov3_huge() -> None:
    """The paper reports 427 million."""
    assert sizes_of(ZOO["facebook/dinov3-vith16plus-pretrain-lvd1689m"].anatomy()).removed_parameters == pytest.approx(
        420e6, abs=1e6
    )


def test_biases_that_are_gained_count_against_what_is_removed() -> None:
    site = Site("a.mlp", "neurons", 0, 64, 1, "a.down", 6, (Producer("a.up", 1, 6, False),), consumer_bias=False)
    assert sizes_of(anatomy_of([site])).removed_parameters == 32 * (6 + 6) - 6


def test_a_row_has_a_cell_for_each_column() -> None:
    rows = [cells(encoder, sizes) for encoder, sizes in described() if encoder.library == "transformers"]
    assert {len(row) for row in rows} == {8}
    assert rows[0][0] == "224² pixels" and rows[-1][0] == "40,960 tokens"
    assert cells(ZOO[DEIT3], "not here")[1:-1] == ("–",) * 6


def test_layers_without_heads_to_cut(pliant: Run, one_anatomy: Callable[[Anatomy], None]) -> None:
    one_anatomy(anatomy_of([neurons(0, 48), heads(1, 4), heads(2, 4), neurons(2, 40)]))
    rows = [line.split() for line in pliant("describe", MINILM).out.splitlines()]
    assert ["0", "–", "48", "–", "13"] in rows
    assert ["1", "4", "–", "108", "–"] in rows
    assert ["2", "4", "40", "108", "13"] in rows


def test_grouped_queries(pliant: Run, one_anatomy: Callable[[Anatomy], None]) -> None:
    made = tuple(Producer(name, rows, 6, False) for name, rows in (("q", 12), ("k", 4), ("v", 4)))
    one_anatomy(anatomy_of([Site("a", "heads", 0, 2, 12, "o", 6, made), neurons(0, 48)]))
    out = pliant("describe", MINILM).out
    assert "2 groups of 3" in out and "as one unit" in out


def test_notes_are_printed(pliant: Run, one_anatomy: Callable[[Anatomy], None]) -> None:
    from dataclasses import replace

    one_anatomy(replace(anatomy_of([neurons(0, 48)]), notes=("The [first] one.", "Another.")))
    assert "Note: The [first] one.\nNote: Another.\n" in pliant("describe", MINILM).out
    assert json.loads(pliant("describe", MINILM, "--json").out)["notes"] == ["The [first] one.", "Another."]
