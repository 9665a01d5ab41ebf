from collections.abc import Callable, Sequence

import pytest
import torch
from evaluation.tiny import Sizes

from pliant.batches import Batch, size
from pliant.errors import InputError
from pliant.evaluation.curve import Curve
from pliant.evaluation.measure import evaluate
from pliant.evaluation.reading import Reading
from pliant.evaluation.similarity import similarities
from pliant.evaluation.tasks.dense import Dense
from pliant.evaluation.tasks.fidelity import Fidelity

BATCHES = [torch.randn(size, 5, 8, generator=torch.Generator().manual_seed(size)) for size in (3, 2)]


def measured(
    sizes: Sizes,
    sparsities: list[float],
    batches: Sequence[Batch] = BATCHES,
    pooling: str = "cls",
    progress: Callable[[str, float], None] | None = None,
) -> Curve:
    reading = Reading(range(sum(map(size, batches))), lambda items: batches, pooling, tokens=True)
    tasks = [Fidelity(reading), Dense(reading)]
    return evaluate(sizes, sparsities, tasks, model="m", ranker="r", task_name="t", progress=progress)


def test_points_are_what_the_models_give_directly() -> None:
    sizes = Sizes()
    curve = measured(sizes, [0.5])
    full, slim = (torch.cat([batch @ sizes.at(sparsity=size).weight for batch in BATCHES]) for size in (0.0, 0.5))
    (point,) = curve.points
    expected = similarities(full[:, 0].detach(), slim[:, 0].detach()).mean().item()
    assert point.value("cosine") == pytest.approx(expected)
    tokens = torch.cosine_similarity(full, slim, dim=-1).mean().item()
    assert point.value("token_cosine") == pytest.approx(tokens, abs=1e-6)
    assert point.value("token_cosine") != point.value("cosine")
    assert (point.achieved_sparsity, point.parameters, point.macs) == (0.5, 104, 28)
    assert (curve.full_parameters, curve.full_macs, curve.tokens) == (108, 56, 7)
    assert Curve.from_json(curve.to_json()) == curve


def test_every_input_counts_once_however_many_tokens_it_has() -> None:
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [1, 1, 0, 0, 0]])
    sizes = Sizes()
    point = measured(sizes, [0.5], [{"values": BATCHES[0], "attention_mask": mask}], "mean").points[0]
    full, slim = (BATCHES[0] @ sizes.at(sparsity=asked).weight for asked in (0.0, 0.5))
    cosines = torch.cosine_similarity(full, slim, dim=-1)
    expected = torch.stack([cosines[0].mean(), cosines[1, 0], cosines[2, :2].mean()]).mean().item()
    assert point.value("token_cosine") == pytest.approx(expected, abs=1e-6)


def test_every_model_sees_every_input_once_and_the_full_one_not_again() -> None:
    sizes = Sizes()
    curve = measured(sizes, [0.5, 0.0, 0.01, 0.5])
    assert [point.sparsity for point in curve.points] == [0.0, 0.01, 0.5]
    for point in curve.points[:2]:
        assert (point.value("cosine"), point.value("token_cosine")) == (
            pytest.approx(1, abs=1e-12),
            pytest.approx(1, abs=1e-12),
        )
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
    seen: list[tuple[str, float]] = []
    measured(Sizes(), [0.5], progress=lambda label, fraction: seen.append((label, fraction)))
    assert seen[:2] == [("3 of 5 inputs", 0.6), ("5 of 5 inputs", 1.0)]


def test_training_flags_are_as_before() -> None:
    sizes = Sizes()
    before = {width: model.training for width, model in sizes.models.items()}
    measured(sizes, [0.5])
    assert {width: model.training for width, model in sizes.models.items()} == before


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(InputError, match="0 sparsities"):
        measured(Sizes(), [])
    with pytest.raises(InputError, match="0 inputs"):
        measured(Sizes(), [0.5], [])
    with pytest.raises(InputError, match="'tokens'"):
        measured(Sizes(), [0.5], pooling="tokens")
    with pytest.raises(InputError, match="leaves out token outputs"):
        Dense(Reading("x", lambda items: BATCHES, "cls"))
    with pytest.raises(InputError, match="input 3 is not finite"):
        measured(Sizes(), [0.5], [BATCHES[0], BATCHES[1] * float("nan")])
