from types import SimpleNamespace
from typing import Any

import pytest
import torch
from evaluation.tasks.labelled import size
from torch import nn

from pliant.budget import Cut
from pliant.cost import Cost
from pliant.errors import InputError
from pliant.evaluation.measure import evaluate
from pliant.evaluation.reading import Reading
from pliant.evaluation.tasks.head import Head


def logits_of(items: int = 4) -> Reading:
    return Reading(range(items), lambda items: [torch.eye(3)[[0, 1, 2, 0]]], "logits")


def test_right_answers_and_agreement() -> None:
    full, slim = torch.eye(3)[[0, 1, 2, 0]], torch.eye(3)[[0, 1, 1, 2]]
    found = Head(torch.tensor([0, 1, 2, 2]), logits_of()).score(size(full), size(slim))
    assert (found["head_top1"].value, found["head_agreement"].value) == (0.75, 0.5)


class Classifier(nn.Module):
    """Gives its input as logits, in the form that transformers gives them, or as something else."""

    def __init__(self, form: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.form = form

    def forward(self, values: torch.Tensor) -> Any:
        return self.form(values * self.weight)


def measured(form: Any) -> float | None:
    model = Classifier(form)
    sizes: Any = SimpleNamespace(
        at=lambda sparsity: model, plan=lambda sparsity: Cut((1,)), cost=lambda cut: Cost(0.0, 1, 1, 1)
    )
    task = Head(torch.tensor([0, 1, 2, 1]), logits_of())
    return evaluate(sizes, [0.5], [task], model="m", ranker="r", task_name="t").points[0].value("head_top1")


def test_logits_are_the_model_s_own() -> None:
    assert measured(lambda values: {"logits": values, "last_hidden_state": values}) == 0.75
    assert measured(lambda values: values) == 0.75
    for headless in (lambda values: {"last_hidden_state": values}, lambda values: values.unsqueeze(1)):
        with pytest.raises(InputError, match="no classification head"):
            measured(headless)


def test_other_classes_are_refused() -> None:
    with pytest.raises(InputError, match="Class 3 of a model with 3"):
        Head(torch.tensor([0, 1, 2, 3]), logits_of()).score(size(torch.eye(4)[:, :3]), size(torch.eye(4)[:, :3]))
    with pytest.raises(InputError, match="2 classes for 4 inputs"):
        Head(torch.tensor([0, 1]), logits_of())
    with pytest.raises(InputError, match="of which the mean is read"):
        Head(torch.tensor([0]), Reading("x", lambda items: [], "mean"))
