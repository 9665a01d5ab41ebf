"""Output maps are the ridge regressions that they say they are, and never make held-out inputs worse."""

from itertools import count
from typing import Any

import pytest
import torch
from contracts.elastics import masks_of
from contracts.models import by_name
from contracts.specimen import spread
from torch import Tensor, nn

from pliant import compensation
from pliant.batches import valid_tokens
from pliant.compensation import RIDGE, _Sums, fit_output_maps, maps_are_usual
from pliant.elastic import Elastic
from pliant.errors import BudgetError, InputError
from pliant.gates import gated
from pliant.pooling import kept_outputs
from pliant.rankers.rank import rank
from pliant.ranking import Ranking

BERT = by_name("bert")


def ranked(pooling: str = "mean", **options: Any) -> Ranking:
    return rank(BERT.model(), BERT.batches(), ranker="random", pooling=pooling, **options)


def elastic(pooling: str = "mean") -> Elastic:
    return Elastic(BERT.model(), ranked(pooling))


def outputs(given: Elastic, batches: list[Any], sparsity: float, pooling: str) -> Tensor:
    """Outputs of the model with the units masked that a cut lacks: of tokens, or their means, taken here by hand."""
    model, found = BERT.model(), []
    with torch.no_grad(), gated(model, given.anatomy, given.ranking.rest) as gates:
        gates.masks = masks_of(given.anatomy, given.ranking, given.plan(sparsity=sparsity)) if sparsity else None
        for batch in batches:
            tokens = model(**batch).last_hidden_state
            for text, real in zip(tokens, valid_tokens(batch, tokens), strict=True):
                found.append(text[real] if pooling == "tokens" else text[real].mean(dim=0, keepdim=True))
    return torch.cat(found).double()


@pytest.mark.parametrize("pooling", ["mean", "tokens"])
def test_a_map_solves_its_regression(pooling: str) -> None:
    """The same minimum, found by least squares over rows for the data and rows for the penalty."""
    given, batches = elastic(pooling), BERT.batches(40)
    fit_output_maps(given, batches, sparsities=(0.5,), inputs=10_000)
    full, slim = (outputs(given, batches[8:], sparsity, pooling) for sparsity in (0.0, 0.5))
    length = full.norm(dim=1, keepdim=True)
    features, errors = torch.cat([slim, torch.ones_like(length)], dim=1) / length, (full - slim) / length
    width = full.shape[1]
    penalty = (RIDGE * (features[:, :-1].square().sum() / width)).sqrt()
    rows = torch.cat([features, penalty * torch.eye(width + 1, dtype=torch.float64)[:-1]])
    expected = torch.linalg.lstsq(rows, torch.cat([errors, torch.zeros(width, width).double()])).solution
    found = given.ranking.output_maps
    assert found is not None
    torch.testing.assert_close(found.weights[0].double(), expected[:-1].T, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.biases[0].double(), expected[-1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("pooling", ["cls", "mean", "last", "tokens"])
def test_maps_bring_unseen_inputs_nearer(pooling: str) -> None:
    given, unseen = elastic(pooling), BERT.batches(10, seed=9)

    def errors(sparsity: float) -> Tensor:
        with torch.no_grad():
            full, slim = (
                torch.cat([kept_outputs(given.at(sparsity=at)(**batch), batch, pooling) for batch in unseen])
                for at in (0.0, sparsity)
            )
        return 1 - nn.functional.cosine_similarity(full, slim)

    sizes = (0.3, 0.5, 0.7)
    before = [errors(sparsity) for sparsity in sizes]
    fit_output_maps(given, BERT.batches(60), sparsities=sizes)
    for sparsity, plain in zip(sizes, before, strict=True):
        assert errors(sparsity).mean() < plain.mean()


def test_a_linear_corruption_is_undone_on_every_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer inputs than a map has columns; what takes the place of padding is no part of it."""
    monkeypatch.setattr(compensation, "RIDGE", 1e-9)
    given, batches, generator = elastic(), BERT.batches(8), torch.Generator().manual_seed(0)
    assert given.anatomy.output is not None
    width, seen, calls = given.anatomy.output.width, list[Tensor](), count()
    turn, shift = (torch.randn(*shape, generator=generator) for shape in ((width, width), (width,)))
    turn *= 0.5 / width**0.5
    fitted = sum(len(batch["input_ids"]) for batch in batches[2:])
    assert fitted < width < sum(int(batch["attention_mask"].sum()) for batch in batches[2:])

    def corrupt(_module: nn.Module, _inputs: Any, tokens: Tensor) -> Tensor:
        # Each batch goes through the full model and one cut.
        number, cut = divmod(next(calls), 2)
        if cut:
            tokens = seen[-1] + seen[-1] @ turn + shift
        seen.append(tokens)
        real = batches[number]["attention_mask"].bool().unsqueeze(-1)
        return torch.where(real, tokens, 9 * torch.randn(tokens.shape, generator=generator))

    handle = given.model.get_submodule(given.anatomy.output.module).register_forward_hook(corrupt)
    fit_output_maps(given, batches, sparsities=(0.5,), pooling="tokens")
    handle.remove()
    found = given.ranking.output_maps
    assert found is not None
    full = outputs(given, BERT.batches(3, seed=9), 0.0, "tokens").float()
    slim = full + full @ turn + shift
    assert (slim - full).norm(dim=1).min() > 1
    torch.testing.assert_close(slim + slim @ found.weights[0].T + found.biases[0], full, atol=1e-3, rtol=1e-3)


def test_rows_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of long texts has many tokens, which needn't all be in float64 at once."""
    slim, full = torch.randn(2, 50, 4)
    whole, parts = (_Sums(4, torch.device("cpu")) for _ in range(2))
    whole.add_(slim, full)
    monkeypatch.setattr(compensation, "_ROWS", 7)
    monkeypatch.setattr(parts, "_count_", lambda *rows: (sizes.append(len(rows[0])), _Sums._count_(parts, *rows)))
    sizes: list[int] = []
    parts.add_(slim, full)
    assert sizes == [7] * 7 + [1]
    torch.testing.assert_close(parts.features, whole.features)
    torch.testing.assert_close(parts.errors, whole.errors)


def test_only_the_cuts_that_were_asked_for_get_a_map() -> None:
    given = elastic()
    cuts = [given.plan(sparsity=sparsity) for sparsity in (0.3, 0.45, 0.6)]
    plain = [given.cost(cut).parameters for cut in cuts]
    fit_output_maps(given, BERT.batches(), sparsities=(0.3, 0.6, 0.6, 0.0))
    width = given.anatomy.output.width  # pyright: ignore[reportOptionalMemberAccess]
    assert [given.cost(cut).parameters - before for cut, before in zip(cuts, plain, strict=True)] == [
        width * (width + 1),
        0,
        width * (width + 1),
    ]
    assert len(given.ranking.output_maps.places) == 2  # pyright: ignore[reportOptionalMemberAccess]
    story = given.ranking.provenance["output_maps"]
    assert story["pooling"] == "mean" and story["sparsities"] == [0.3, 0.6, 0.6, 0.0]


def test_fitting_again_replaces_the_maps() -> None:
    given = elastic()
    fit_output_maps(given, BERT.batches(40), sparsities=(0.3, 0.6))
    first = given.ranking.output_maps
    fit_output_maps(given, BERT.batches(40), sparsities=(0.3,))
    second = given.ranking.output_maps
    assert first is not None and second is not None
    # Fitted to the cuts themselves, not to what earlier maps made of them.
    torch.testing.assert_close(second.weights[0], first.weights[0])
    assert given.plan(sparsity=0.6).widths not in second


@pytest.mark.parametrize(("sign", "helps"), [(1, True), (-1, False)])
def test_gain_is_by_how_much_a_map_lowers_the_error(sign: int, helps: bool) -> None:
    """What is learned is right for inputs whose outputs err in the same way, and wrong where they err in the other."""
    generator = torch.Generator().manual_seed(0)
    full, turn = (torch.randn(rows, 4, generator=generator, dtype=torch.float64) for rows in (50, 4))
    error = 0.2 * full @ turn
    training, held_out = (_Sums(4, torch.device("cpu")) for _ in range(2))
    training.add_(full + error, full)
    slim, length = full + sign * error, full.norm(dim=1, keepdim=True)
    held_out.add_(slim, full)
    solution = training.solved()
    mapped = slim + slim @ solution[:-1] + solution[-1]
    before, after = (((found - full) / length).square().sum() for found in (slim, mapped))
    torch.testing.assert_close(held_out.gain(solution), before - after)
    assert (held_out.gain(solution) > 0) == helps


def test_a_map_that_does_not_help_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would cost parameters and compute for nothing."""
    given, gains = elastic(), iter([-1.0, 1.0])
    cuts = [given.plan(sparsity=sparsity) for sparsity in (0.3, 0.6)]
    monkeypatch.setattr(_Sums, "gain", lambda self, solution: next(gains))
    fit_output_maps(given, BERT.batches(), sparsities=(0.3, 0.6))
    maps = given.ranking.output_maps
    assert maps is not None and list(maps.places) == [cuts[1].widths]
    monkeypatch.setattr(_Sums, "gain", lambda self, solution: 0.0)
    fit_output_maps(given, BERT.batches(), sparsities=(0.3, 0.6))
    assert given.ranking.output_maps is None
    assert given.ranking.provenance["output_maps"]["sparsities"] == [0.3, 0.6]


@pytest.mark.parametrize("broken", [0, 6])
def test_outputs_that_are_not_finite_are_refused(broken: int) -> None:
    """Held-out batches come first."""
    given, batches = elastic(), BERT.batches(12)
    norm = given.model.get_submodule(given.anatomy.output.module)  # pyright: ignore[reportOptionalMemberAccess]
    calls = iter(range(10**6))

    def spoil(_module: nn.Module, _inputs: Any, tokens: Tensor) -> Tensor:
        # Each batch goes through the full model and one cut.
        return tokens * torch.nan if next(calls) == 2 * broken else tokens

    handle = norm.register_forward_hook(spoil)
    with pytest.raises(InputError, match="not finite"):
        fit_output_maps(given, batches, sparsities=(0.5,))
    handle.remove()
    assert given.ranking.output_maps is None and "output_maps" not in given.ranking.provenance


@pytest.mark.parametrize("pooling", ["mean", "tokens"])
def test_padding_never_counts(pooling: str) -> None:
    """More padding on the same texts gives the same maps."""
    one, other = elastic(pooling), elastic(pooling)
    longer = [{name: nn.functional.pad(values, (0, 3)) for name, values in batch.items()} for batch in BERT.batches(40)]
    fit_output_maps(one, BERT.batches(40), sparsities=(0.5,))
    fit_output_maps(other, longer, sparsities=(0.5,))
    mine, theirs = one.ranking.output_maps, other.ranking.output_maps
    assert mine is not None and theirs is not None
    torch.testing.assert_close(mine.weights, theirs.weights, atol=1e-4, rtol=1e-3)


def test_no_more_inputs_than_wanted_and_each_once() -> None:
    given, seen = elastic(), list[int]()
    fit_output_maps(given, iter(BERT.batches(40)), sparsities=(0.3, 0.7), inputs=7, watch=seen.append)
    assert seen == [3, 6, 9]
    seen.clear()
    fit_output_maps(given, iter(BERT.batches(40)), sparsities=(0.3,), inputs=10**6, watch=seen.append)
    assert seen[-1] == 3 * 32
    # Of tokens, too, inputs are counted.
    seen.clear()
    fit_output_maps(given, iter(BERT.batches(40)), sparsities=(0.3,), pooling="tokens", inputs=7, watch=seen.append)
    assert seen == [3, 6, 9]


def test_nothing_is_left_on_the_model() -> None:
    given = elastic()
    original = given.model(**BERT.batch()).last_hidden_state
    fit_output_maps(given, BERT.batches(), sparsities=(0.5,))
    assert not any(module._forward_hooks for module in given.model.modules())
    assert torch.equal(given.model(**BERT.batch()).last_hidden_state, original)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"pooling": "mean"}, True),
        ({"pooling": "cls"}, True),
        ({"pooling": "last"}, True),
        ({"rest": "zero"}, False),
        ({"pooling": "pooler"}, False),
        ({"pooling": "tokens"}, True),
        ({"objective": "tokens"}, True),
        ({"objective": "pooled+tokens"}, True),
        ({"objective": "tokens", "rest": "zero"}, False),
        ({"pooling": "pooler", "objective": "tokens"}, True),
        ({"pooling": "pooler", "objective": "pooled+tokens"}, True),
        ({"objective": spread}, False),
        ({"pooling": "tokens", "objective": spread}, False),
    ],
)
def test_where_maps_are_usual(options: dict[str, Any], expected: bool) -> None:
    assert maps_are_usual(ranked(**options), elastic().anatomy) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"pooling": "cls"}, "cls"),
        ({"pooling": "tokens"}, "tokens"),
        ({"pooling": "cls", "objective": "tokens"}, "tokens"),
        ({"pooling": "cls", "objective": "pooled+tokens"}, "tokens"),
        ({"pooling": "pooler", "objective": "pooled+tokens"}, "tokens"),
        ({"pooling": "cls", "objective": spread}, "cls"),
    ],
)
def test_what_maps_are_fitted_to(options: dict[str, Any], expected: str) -> None:
    """What the objective keeps, unless something else is asked for."""
    default, asked = (Elastic(BERT.model(), ranked(**options)) for _ in range(2))
    fit_output_maps(default, BERT.batches(24), sparsities=(0.5,))
    fit_output_maps(asked, BERT.batches(24), sparsities=(0.5,), pooling=expected)
    one, other = default.ranking.output_maps, asked.ranking.output_maps
    assert one is not None and other is not None
    assert torch.equal(one.weights, other.weights)
    assert default.ranking.provenance["output_maps"]["pooling"] == expected


def test_an_embedding_is_fitted_to_where_it_is_asked_for() -> None:
    given = Elastic(BERT.model(), ranked("cls", objective="pooled+tokens"))
    fit_output_maps(given, BERT.batches(), sparsities=(0.5,), pooling="cls")
    assert given.ranking.provenance["output_maps"]["pooling"] == "cls"


def test_maps_are_not_usual_where_they_have_no_place() -> None:
    tower = by_name("siglip-vision")
    ranking = rank(tower.model(), tower.batches(), ranker="random", pooling="mean")
    assert not maps_are_usual(ranking, Elastic(tower.model(), ranking).anatomy)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"pooling": "pooler"}, InputError, "cls, mean, last, tokens"),
        ({"pooling": "everything"}, InputError, "cls, mean, last, tokens"),
        ({"sparsities": ()}, InputError, "names no cut"),
        ({"sparsities": (0.0,)}, InputError, "names no cut"),
        ({"sparsities": (1.5,)}, BudgetError, "outside"),
        ({"sparsities": 0.5}, InputError, "no list of sizes"),
        ({"sparsities": "0.5"}, InputError, "no list of sizes"),
        ({"inputs": 0}, InputError, "at least 1"),
        ({"inputs": "many"}, InputError, "at least 1"),
        ({"batches": []}, InputError, "at least 2"),
        ({"batches": BERT.batches()[0]}, InputError, "not several batches"),
        ({"batches": 5}, InputError, "not several batches"),
        ({"batches": ["a cat", "a dog"]}, InputError, "Calibration batch 0 is 'a cat'"),
        ({"batches": BERT.batches(1)}, InputError, "at least 2"),
    ],
)
def test_wishes_that_cannot_be_met_change_nothing(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = elastic()
    fit_output_maps(given, BERT.batches(), sparsities=(0.5,))
    before = given.ranking.output_maps
    with pytest.raises(error, match=message):
        fit_output_maps(given, **{"batches": BERT.batches(), **options})
    assert given.ranking.output_maps is before and given.ranking.provenance["output_maps"]["sparsities"] == [0.5]


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_outputs_that_say_nothing(value: float) -> None:
    given = elastic()
    assert given.anatomy.output is not None
    norm = given.model.get_submodule(given.anatomy.output.module)
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.fill_(value)
    if value != 0:
        with pytest.raises(InputError, match="outputs are not finite on the calibration inputs"):
            fit_output_maps(given, BERT.batches(), sparsities=(0.5,))
        return
    fit_output_maps(given, BERT.batches(), sparsities=iter([0.5]))
    assert given.ranking.output_maps is None
    assert given.ranking.provenance["output_maps"]["sparsities"] == [0.5]


def test_what_is_no_map_is_refused() -> None:
    given = elastic()
    wrong: Any = "maps"
    with pytest.raises(InputError, match="The output maps are OutputMaps or None"):
        given.use_output_maps_(wrong)
    assert given.ranking.output_maps is None


def test_a_model_without_a_place_for_maps() -> None:
    tower = by_name("siglip-vision")
    given = Elastic(tower.model(), rank(tower.model(), tower.batches(), ranker="random"))
    with pytest.raises(InputError, match="no place for an output map"):
        fit_output_maps(given, tower.batches())
