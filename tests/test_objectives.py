import math
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pliant.errors import InputError
from pliant.objectives import OBJECTIVES, Callback, DenseDistillation, Distillation, objective_of, task_loss

BATCH = {"attention_mask": torch.tensor([[1, 1, 0], [1, 0, 0]])}


def outputs(seed: int = 0) -> dict[str, torch.Tensor]:
    return {"last_hidden_state": torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(seed))}


@pytest.mark.parametrize("pooling", ["cls", "mean", "last", "tokens"])
def test_the_full_model_loses_nothing(pooling: str) -> None:
    objective = Distillation(pooling)
    target = objective.target(outputs(), BATCH)
    assert objective.loss(outputs(), target, BATCH).item() == pytest.approx(0, abs=1e-6)
    assert objective.loss(outputs(1), target, BATCH).item() > 0.1


@pytest.mark.parametrize("degrees", [0, 60, 90, 180])
def test_the_loss_is_one_minus_the_cosine(degrees: float) -> None:
    angle = math.radians(degrees)
    full = {"last_hidden_state": torch.tensor([[[2.0, 0.0]]])}
    dimmed = {"last_hidden_state": torch.tensor([[[5 * math.cos(angle), 5 * math.sin(angle)]]])}
    objective = Distillation("mean")
    loss = objective.loss(dimmed, objective.target(full, {}), {})
    assert loss.item() == pytest.approx(1 - math.cos(angle), abs=1e-6)


@pytest.mark.parametrize(
    "objective", [*map(Distillation, ("cls", "mean", "last", "tokens")), DenseDistillation("mean")], ids=str
)
def test_padding_never_counts(objective: Distillation | DenseDistillation) -> None:
    spoilt = outputs()
    spoilt["last_hidden_state"] = spoilt["last_hidden_state"] + 9 * (1 - BATCH["attention_mask"]).unsqueeze(-1)
    target = objective.target(outputs(), BATCH)
    assert objective.loss(spoilt, target, BATCH).item() == pytest.approx(0, abs=1e-6)
    probes = [objective.probe(found, BATCH, torch.Generator().manual_seed(0)) for found in (outputs(), spoilt)]
    assert probes[0].item() == pytest.approx(probes[1].item(), abs=1e-5)


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_the_probe_follows_its_generator(one: int, other: int) -> None:
    objective = Distillation("mean")
    found = [objective.probe(outputs(), BATCH, torch.Generator().manual_seed(seed)).item() for seed in (one, other)]
    assert (found[0] == found[1]) == (one == other)


def test_the_probe_has_a_slope_where_the_loss_has_none() -> None:
    objective, full = Distillation("mean"), outputs()
    target = objective.target(full, BATCH)
    tokens = full["last_hidden_state"].requires_grad_()
    (flat,) = torch.autograd.grad(objective.loss({"last_hidden_state": tokens}, target, BATCH), tokens)
    (steep,) = torch.autograd.grad(
        objective.probe({"last_hidden_state": tokens}, BATCH, torch.Generator().manual_seed(0)), tokens
    )
    assert flat.abs().max() < 1e-6
    assert steep.abs().max() > 1e-2


def test_a_function_of_the_users_own() -> None:
    def own(found: Any, batch: Any) -> torch.Tensor:
        return found["last_hidden_state"].sum() + batch["attention_mask"].sum()

    objective = objective_of(own, "mean")
    assert objective.name == "own"
    assert objective.target(outputs(), BATCH) is None
    expected = outputs()["last_hidden_state"].sum().item() + 3
    assert objective.loss(outputs(), None, BATCH).item() == pytest.approx(expected)
    assert objective.probe(outputs(), BATCH, torch.Generator()).item() == pytest.approx(expected)


def test_an_object_that_can_be_called_has_its_class_name() -> None:
    class Own:
        def __call__(self, found: Any, batch: Any) -> torch.Tensor:
            return torch.zeros(())

    assert objective_of(Own(), "mean").name == "Own"


@pytest.mark.parametrize("result", [1.0, None, torch.zeros(2)], ids=["float", "none", "vector"])
def test_a_function_must_return_a_scalar(result: Any) -> None:
    with pytest.raises(InputError, match="scalar tensor is needed"):
        Callback(lambda found, batch: result).loss(outputs(), None, BATCH)


def test_the_task_loss_is_the_models_own() -> None:
    loss = torch.tensor(0.7)
    assert task_loss({"loss": loss}, BATCH) is loss
    for found in ({"logits": loss}, {"loss": None}, (loss,)):
        with pytest.raises(InputError, match=r"no loss.*labels"):
            task_loss(found, BATCH)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (None, "distillation of cls"),
        ("pooled", "distillation of cls"),
        ("tokens", "distillation of tokens"),
        ("pooled+tokens", "distillation of cls and tokens"),
    ],
)
def test_names(name: str | None, expected: str) -> None:
    assert objective_of(name, "cls").name == expected
    assert name is None or name in OBJECTIVES


def test_tokens_with_tokens_are_tokens() -> None:
    assert objective_of("pooled+tokens", "tokens") == Distillation("tokens")


def test_the_dense_loss_is_the_mean_of_the_embeddings_and_the_tokens() -> None:
    dense, parts = DenseDistillation("mean"), (Distillation("mean"), Distillation("tokens"))
    losses = [part.loss(outputs(1), part.target(outputs(), BATCH), BATCH) for part in parts]
    loss = dense.loss(outputs(1), dense.target(outputs(), BATCH), BATCH)
    assert loss.item() == pytest.approx((losses[0] + losses[1]).item() / 2)
    assert losses[0].item() != pytest.approx(losses[1].item(), abs=1e-3)


def test_the_dense_probe_weighs_embeddings_and_tokens_as_the_loss_does() -> None:
    """Over many directions, its squared slope is that of 2 embeddings' projection plus 2/3 of that of 3 tokens'."""
    mask = BATCH["attention_mask"].bool()

    def slopes(objective: Distillation | DenseDistillation) -> torch.Tensor:
        total = torch.zeros(2, 3, 4, dtype=torch.float64)
        generator = torch.Generator().manual_seed(0)
        for _ in range(500):
            tokens = outputs()["last_hidden_state"].requires_grad_()
            probe = objective.probe({"last_hidden_state": tokens}, BATCH, generator)
            total += torch.autograd.grad(probe, tokens)[0].double() ** 2 / 500
        return total[mask].sum(dim=-1)

    expected = slopes(Distillation("mean")) + slopes(Distillation("tokens")) * 2 / 3
    torch.testing.assert_close(slopes(DenseDistillation("mean")), expected, rtol=0.15, atol=1e-4)


def test_an_objective_is_taken_as_it_is() -> None:
    objective = Distillation("mean")
    assert objective_of(objective, "cls") is objective
    assert objective_of("task", "cls").name == "task_loss"


def test_names_that_are_unknown() -> None:
    with pytest.raises(InputError, match=r"Unknown objective 'mlm'. Allowed: pooled, tokens, pooled\+tokens, task"):
        objective_of("mlm", "cls")
    with pytest.raises(InputError, match="Unknown objective 5"):
        objective_of(cast(Any, 5), "cls")
    with pytest.raises(InputError, match="Unknown pooling 'max'"):
        objective_of(None, "max")
    with pytest.raises(InputError, match="Unknown pooling 'max'"):
        objective_of("task", "max")
