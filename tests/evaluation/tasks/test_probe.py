import sys

import pytest
import torch
from evaluation.tasks.labelled import clouds, reading, renamed, size

from pliant.errors import MissingExtraError
from pliant.evaluation.tasks.clustering import Clustering
from pliant.evaluation.tasks.probe import Probe, features, fitted

pytest.importorskip("sklearn")


def test_features_have_components_of_about_one() -> None:
    found = features(5 * torch.randn(200, 64))
    assert (found**2).mean() == pytest.approx(1)


def test_the_probe_minimises_its_loss() -> None:
    """At the minimum of ½‖W‖² + Σ cross-entropy the gradient is zero."""
    points, classes = clouds(90, 3, 6, 1.0)
    probe = fitted(points, classes.codes)
    weight = torch.tensor(probe.coef_, requires_grad=True)
    bias = torch.tensor(probe.intercept_, requires_grad=True)
    logits = torch.from_numpy(features(points)) @ weight.T + bias
    loss = torch.nn.functional.cross_entropy(logits, classes.codes, reduction="sum") + weight.square().sum() / 2
    loss.backward()
    assert weight.grad is not None and bias.grad is not None
    assert max(weight.grad.abs().max(), bias.grad.abs().max()).item() < 0.05


def test_separable_classes_are_found_and_noise_is_not() -> None:
    points, classes = clouds(120, 4, 16, 0.1)
    noise = torch.randn(120, 16)
    found = Probe(classes, reading(120)).score(size(points), size(points))
    assert found["probe_refitted"].value == found["probe_kept"].value == 1.0
    assert Probe(classes, reading(120)).score(size(noise), size(noise))["probe_refitted"].value < 0.6


def test_a_kept_probe_is_the_full_model_s() -> None:
    full, classes = clouds(120, 4, 16, 0.1)
    found = Probe(classes, reading(120)).score(size(full), size(full.flip(1)))
    assert found["probe_refitted"].value == 1.0
    assert found["probe_kept"].value < 0.9
    again = Probe(renamed(classes), reading(120)).score(size(full), size(full.flip(1)))
    assert again["probe_kept"].value == found["probe_kept"].value


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    _, classes = clouds(12, 3, 2, 0.1)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for task in (Probe, Clustering):
        with pytest.raises(MissingExtraError, match=r"pliant\[eval\]"):
            task(classes, reading(12))
