"""Output maps are the ridge regressions that they say they are, and never make held-out inputs worse."""

from typing import Any

import pytest
import torch
from contracts.models import by_name
from contracts.specimen import Specimen, spread
from torch import Tensor, nn

from pliant.batches import valid_tokens
from pliant.errors import InputError
from pliant.families import describe
from pliant.gates import frozen, gated
from pliant.objectives import Distillation, objective_of
from pliant.output_maps import OutputMaps
from pliant.rankers import output_ridge
from pliant.rankers.calibration import Calibration, Stream, unit_costs
from pliant.rankers.output_ridge import Fitting, _kept, _Sums
from pliant.rankers.rank import rank
from pliant.rankers.soft_topk import hard_topk

BERT = by_name("bert")


def calibration(specimen: Specimen = BERT, batches: int = 40, pooling: str = "mean") -> Calibration:
    model = specimen.model()
    anatomy = describe(model)
    rest = tuple(torch.zeros(site.units * site.width) for site in anatomy.sites)
    costs = unit_costs(anatomy, torch.device("cpu"))
    stream = Stream(specimen.batches(batches))
    return Calibration(model, anatomy, stream, Distillation(pooling), rest, costs, seed=0)


def fitted(given: Calibration, **options: Any) -> OutputMaps:
    scores = torch.rand(given.anatomy.units, generator=torch.Generator().manual_seed(0))
    with frozen(given.model):
        return output_ridge.fit(given, scores, given.rest, Fitting(**options))


def embeddings(given: Calibration, batches: list[Any], sparsity: float) -> Tensor:
    """Mean outputs of the model with the same units masked, counted here by hand."""
    scores = torch.rand(given.anatomy.units, generator=torch.Generator().manual_seed(0))
    found = []
    with torch.no_grad(), gated(given.model, given.anatomy, given.rest) as gates:
        gates.masks = hard_topk(scores, given.costs, sparsity) if sparsity else None
        for batch in batches:
            tokens = given.model(**batch).last_hidden_state
            weights = valid_tokens(batch, tokens).unsqueeze(-1)
            found.append((tokens * weights).sum(dim=1) / weights.sum(dim=1))
    return torch.cat(found).double()


def test_a_map_solves_its_regression() -> None:
    """The same minimum, found by least squares over rows for the data and rows for the penalty."""
    given = calibration()
    maps = fitted(given, sparsities=(0.5,), inputs=10_000, ridge=0.2)
    batches = list(given.stream.once())
    full, slim = (embeddings(given, batches, sparsity) for sparsity in (0.0, 0.5))
    length = full.norm(dim=1, keepdim=True)
    features, errors = torch.cat([slim, torch.ones_like(length)], dim=1) / length, (full - slim) / length
    width = full.shape[1]
    penalty = (0.2 * (features[:, :-1].square().sum() / width)).sqrt()
    rows = torch.cat([features, penalty * torch.eye(width + 1, dtype=torch.float64)[:-1]])
    expected = torch.linalg.lstsq(rows, torch.cat([errors, torch.zeros(width, width).double()])).solution
    torch.testing.assert_close(maps.weights[0].double(), expected[:-1].T, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(maps.biases[0].double(), expected[-1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("pooling", ["cls", "mean", "last"])
def test_maps_bring_held_out_inputs_nearer(pooling: str) -> None:
    model, batches = BERT.model(), BERT.batches(60)
    plain, mapped = (
        rank(model, batches, ranker="random", pooling=pooling, output_map=wanted) for wanted in (False, True)
    )
    assert plain.output_maps is None and mapped.output_maps is not None
    assert torch.equal(plain.scores, mapped.scores)
    from pliant.elastic import Elastic
    from pliant.pooling import pool

    def error(ranking: Any, sparsity: float) -> float:
        elastic = Elastic(BERT.model(), ranking)
        unseen = BERT.batches(10, seed=9)
        with torch.no_grad():
            pairs = [
                tuple(pool(elastic.at(sparsity=at)(**batch), batch, pooling) for at in (0.0, sparsity))
                for batch in unseen
            ]
        return sum((1 - nn.functional.cosine_similarity(full, slim)).mean().item() for full, slim in pairs)

    for sparsity in (0.3, 0.5, 0.7):
        assert error(mapped, sparsity) < error(plain, sparsity)


@pytest.mark.parametrize(("sign", "helps"), [(1, True), (-1, False)])
def test_a_map_that_does_not_help_is_left_out(sign: int, helps: bool) -> None:
    """What is learned is right for inputs whose outputs err in the same way, and wrong where they err in the other."""
    generator = torch.Generator().manual_seed(0)
    full, turn = (torch.randn(rows, 4, generator=generator, dtype=torch.float64) for rows in (50, 4))
    error = 0.2 * full @ turn
    training, held_out = (_Sums(4, torch.device("cpu")) for _ in range(2))
    training.add_(full + error, full)
    held_out.add_(full + sign * error, full)
    solution = training.solved(0.1)
    assert (held_out.gain(solution) > 0) == helps
    assert torch.equal(_kept(solution, held_out), solution if helps else torch.zeros(5, 4, dtype=torch.float64))


def test_padding_never_counts() -> None:
    """More padding on the same texts gives the same maps."""
    one, other = calibration(), calibration()
    for batch in [*other.stream.held_out, *other.stream._source]:
        for name, values in list(batch.items()):
            batch[name] = nn.functional.pad(values, (0, 3 if values.shape[1] < 12 else 0))
    mine, theirs = fitted(one, sparsities=(0.5,)), fitted(other, sparsities=(0.5,))
    torch.testing.assert_close(mine.weights, theirs.weights, atol=1e-4, rtol=1e-3)


def test_no_more_inputs_than_wanted_and_each_once() -> None:
    given = calibration(batches=40)
    calls: list[int] = []
    given.model.register_forward_pre_hook(lambda *_: calls.append(1))
    fitted(given, sparsities=(0.3, 0.7), inputs=9)
    assert len(calls) == 3 * (3 + len(given.stream.held_out))
    calls.clear()
    fitted(given, sparsities=(0.3, 0.7), inputs=10**6)
    assert len(calls) == 3 * 40


def test_nothing_is_left_on_the_model() -> None:
    given = calibration()
    assert given.anatomy.output is not None
    norm = given.model.get_submodule(given.anatomy.output.module)
    fitted(given)
    assert not norm._forward_hooks


@pytest.mark.parametrize(
    ("objective", "pooling", "rest", "expected"),
    [
        ("pooled", "mean", "mean", True),
        ("pooled", "cls", "mean", True),
        ("pooled", "last", "mean", True),
        ("pooled", "mean", "zero", False),
        ("pooled", "pooler", "mean", False),
        ("tokens", "mean", "mean", False),
        ("pooled+tokens", "cls", "mean", False),
        ("task", "mean", "mean", False),
    ],
)
def test_where_a_map_is_usual(objective: str, pooling: str, rest: Any, expected: bool) -> None:
    goal = objective_of(objective, pooling)
    assert output_ridge.usual(describe(BERT.model()).output, goal, rest) == expected
    assert not output_ridge.usual(None, goal, rest)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bert", {"objective": spread}, "pooled from tokens by cls, mean, last"),
        ("bert", {"pooling": "tokens"}, "pooled from tokens by cls, mean, last"),
        ("siglip-vision", {}, "no place for an output map"),
    ],
)
def test_wishes_that_cannot_be_met(name: str, options: dict[str, Any], message: str) -> None:
    specimen = by_name(name)
    with pytest.raises(InputError, match=message):
        rank(specimen.model(), specimen.batches(), ranker="random", output_map=True, **options)
