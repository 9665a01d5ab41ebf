from collections.abc import Callable, Sequence

import pytest
import torch
from evaluation.sizes import EightUnits
from torch import Tensor, nn

from pliant.batches import Batch
from pliant.errors import InputError
from pliant.evaluation.curve import Curve
from pliant.evaluation.dense import measure_dense
from pliant.evaluation.fidelity import fidelity

BATCHES = [torch.randn(size, 5, 8, generator=torch.Generator().manual_seed(size)) for size in (3, 2)]


class Tokens(nn.Module):
    """Maps each token by one matrix, and counts the inputs that it sees."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.dropout = nn.Dropout(0.5)
        self.seen = 0

    def forward(self, values: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        self.seen += len(values)
        return self.dropout(values @ self.weight)


class Sizes(EightUnits):
    """One unit a channel: a cut forgets the last ones."""

    def __init__(self) -> None:
        weight = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))
        self.models = {width: Tokens(weight * (torch.arange(8) < width)[:, None] + 0.01) for width in range(1, 9)}

    def at(self, *, sparsity: float) -> Tokens:
        return self.models[self.plan(sparsity=sparsity).widths[0]]


def measured(
    sizes: Sizes,
    sparsities: list[float],
    batches: Sequence[Batch] = BATCHES,
    pooling: str = "cls",
    progress: Callable[[int], None] | None = None,
) -> Curve:
    return measure_dense(sizes, sparsities, batches, pooling, model="m", ranker="r", task_name="t", progress=progress)


def test_points_are_what_the_models_give_directly() -> None:
    sizes = Sizes()
    curve = measured(sizes, [0.5])
    full, slim = (torch.cat([batch @ sizes.at(sparsity=size).weight for batch in BATCHES]) for size in (0.0, 0.5))
    (point,) = curve.points
    expected = fidelity(full[:, 0].detach(), slim[:, 0].detach())
    assert (point.cosine, point.worst_cosine) == (pytest.approx(expected.cosine), pytest.approx(expected.worst))
    assert point.token_cosine == pytest.approx(torch.cosine_similarity(full, slim, dim=-1).mean().item(), abs=1e-6)
    assert point.token_cosine != point.cosine
    assert (point.achieved_sparsity, point.parameters, point.macs) == (0.5, 104, 28)
    assert (curve.full_parameters, curve.full_macs, curve.tokens, curve.full_ndcg) == (108, 56, 7, None)
    assert curve.has_tokens and Curve.from_json(curve.to_json()) == curve


def test_every_model_sees_every_input_once_and_the_full_one_not_again() -> None:
    sizes = Sizes()
    curve = measured(sizes, [0.5, 0.0, 0.01, 0.5])
    assert [point.sparsity for point in curve.points] == [0.0, 0.01, 0.5]
    for point in curve.points[:2]:
        assert (point.cosine, point.token_cosine) == (pytest.approx(1, abs=1e-12), pytest.approx(1, abs=1e-12))
    assert {width: model.seen for width, model in sizes.models.items() if model.seen} == {8: 5, 4: 5}


def test_padding_does_not_count() -> None:
    mask = torch.tensor([[1, 1, 1, 0, 0]] * 3)
    spoilt = BATCHES[0].clone()
    spoilt[:, 3:] = 99
    one, other = (
        measured(Sizes(), [0.5], [{"values": values, "attention_mask": mask}], "mean").points[0]
        for values in (BATCHES[0], spoilt)
    )
    assert one == other


def test_progress_counts_inputs() -> None:
    seen: list[int] = []
    measured(Sizes(), [0.5], progress=seen.append)
    assert seen == [3, 5]


def test_training_flags_are_as_before() -> None:
    sizes = Sizes()
    before = {width: model.training for width, model in sizes.models.items()}
    measured(sizes, [0.5])
    assert {width: model.training for width, model in sizes.models.items()} == before


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(InputError, match="No sparsities"):
        measured(Sizes(), [])
    with pytest.raises(InputError, match="no batches"):
        measured(Sizes(), [0.5], [])
    with pytest.raises(InputError, match="'tokens'"):
        measured(Sizes(), [0.5], pooling="tokens")
    with pytest.raises(InputError, match="input 3 is not finite"):
        measured(Sizes(), [0.5], [BATCHES[0], BATCHES[1] * float("nan")])


def test_a_size_whose_outputs_are_not_finite_is_refused() -> None:
    """Its cosines would be no numbers."""
    sizes = Sizes()
    sizes.at(sparsity=0.5).weight.data[0] = float("inf")
    with pytest.raises(InputError, match="input 0 is not finite"):
        measured(sizes, [0.0, 0.5])
