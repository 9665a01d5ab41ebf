import torch
from contracts.models import by_name
from hypothesis import given
from hypothesis import strategies as st

from pliant.batches import Batch
from pliant.rankers.rank import RANKERS, SCORERS, _digest, _scaled, rank
from pliant.ranking import Ranking


def test_every_scorer_is_a_ranker() -> None:
    assert set(RANKERS) == {"soft-mask", *SCORERS}


@given(st.lists(st.floats(-1e100, 1e100, allow_subnormal=False), min_size=1, max_size=20))
def test_scaling_keeps_the_order(values: list[float]) -> None:
    scores = torch.tensor(values, dtype=torch.float64)
    scaled = _scaled(scores)
    assert scaled.dtype == torch.float32
    assert torch.isfinite(scaled).all()
    assert (scaled[torch.argsort(scores)].diff() >= 0).all()
    assert scaled.abs().max().item() in (0.0, 1.0)


def test_small_scores_do_not_vanish() -> None:
    scaled = _scaled(torch.tensor([1e-60, 2e-60, 3e-60], dtype=torch.float64))
    assert len(set(scaled.tolist())) == 3


def test_the_digest_sees_names_types_shapes_and_values() -> None:
    batch = {"a": torch.zeros(2, 3), "b": torch.ones(2)}
    same = _digest([{"b": torch.ones(2), "a": torch.zeros(2, 3)}])
    assert _digest([batch]) == same
    changed: tuple[list[Batch], ...] = (
        [{**batch, "a": torch.zeros(3, 2)}],
        [{**batch, "a": torch.zeros(2, 3).double()}],
        [{**batch, "b": torch.tensor([1.0, 1.001])}],
        [batch, batch],
    )
    assert len({same, *map(_digest, changed)}) == 1 + len(changed)


def test_all_rankers_share_rest_values_and_fingerprint() -> None:
    specimen = by_name("bert")
    found: list[Ranking] = [rank(specimen.model(), specimen.batches(), ranker=ranker, steps=1) for ranker in RANKERS]
    for other in found[1:]:
        assert other.fingerprint == found[0].fingerprint
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(other.rest, found[0].rest, strict=True))


def test_bfloat16_ranks_much_as_float32_does() -> None:
    specimen = by_name("bert")
    for ranker in ("fisher", "magnitude"):
        scores = [
            rank(model, specimen.batches(), ranker=ranker).scores
            for model in (specimen.model(), specimen.model().bfloat16())
        ]
        ranks = [torch.argsort(torch.argsort(values)).double() for values in scores]
        assert torch.corrcoef(torch.stack(ranks))[0, 1] > 0.97
