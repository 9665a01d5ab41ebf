import pytest
import torch
from evaluation.tasks.labelled import reading, size

from pliant.errors import InputError
from pliant.evaluation.tasks.sts import Sts, ranks, spearman


def test_hand_computed_ranks_and_correlation() -> None:
    assert ranks(torch.tensor([[3.0, 1.0, 3.0, 2.0]])).tolist() == [[2.5, 0.0, 2.5, 1.0]]
    # Differences of ranks 0, 1, 1, 0: 1 − 6·2 / (4·15) = 0.8
    one, other = torch.tensor([[1.0, 2, 3, 4]]), torch.tensor([[10.0, 30, 20, 40]])
    assert spearman(one, other).item() == pytest.approx(0.8)


def test_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    # Coarse values give many ties.
    one, other = torch.randint(0, 5, (20, 30)).double(), torch.randn(20, 30).double()
    other += one
    expected = [stats.spearmanr(a, b).statistic for a, b in zip(one.numpy(), other.numpy(), strict=True)]
    assert spearman(one, other).tolist() == pytest.approx(expected)


def test_the_score_is_of_the_cosines_of_pairs() -> None:
    angles = torch.deg2rad(torch.tensor([0.0, 10.0, 40.0, 90.0]))
    first, second = torch.tensor([[2.0, 0.0]] * 4), torch.stack([angles.cos(), angles.sin()], dim=1)
    task = Sts(torch.tensor([5.0, 4.0, 1.0, 2.0]), reading(8))
    found = task.score(size(torch.ones(8, 2)), size(torch.cat([first, second])))["sts_spearman"]
    assert found.value == pytest.approx(0.8)
    assert found.low is not None and found.low < found.value
    assert task.score(size(torch.ones(8, 2)), size(torch.ones(8, 2)))["sts_spearman"].value == 0.0


def test_pairs_without_an_order_are_refused() -> None:
    with pytest.raises(InputError, match="all of one score"):
        Sts(torch.ones(3), reading(6))
    with pytest.raises(InputError, match="5 texts for 3 pairs"):
        Sts(torch.arange(3), reading(5))
