import pytest
import torch
from evaluation.tasks.labelled import clouds, reading, renamed, size

from pliant.evaluation.tasks.clustering import Clustering, clusters, v_measure

metrics = pytest.importorskip("sklearn.metrics")


def test_hand_computed_v_measure() -> None:
    # Homogeneous (each cluster has one class), but class 1 is in two clusters: h = 1, c = H(K) − H(K|C) over H(K).
    classes, found = torch.tensor([[0, 0, 1, 1]]), torch.tensor([[0, 0, 1, 2]])
    assert v_measure(classes, found).item() == pytest.approx(0.8)
    assert v_measure(classes, torch.zeros(1, 4, dtype=torch.long)).item() == 0.0
    assert v_measure(torch.zeros(1, 4, dtype=torch.long), torch.zeros(1, 4, dtype=torch.long)).item() == 1.0


def test_agrees_with_scikit_learn() -> None:
    classes, found = torch.randint(0, 4, (20, 50)), torch.randint(0, 6, (20, 50))
    found[:10] = classes[:10] // 2 + found[:10] // 3
    expected = [metrics.v_measure_score(a, b) for a, b in zip(classes.numpy(), found.numpy(), strict=True)]
    assert v_measure(classes, found).tolist() == pytest.approx(expected)


def test_clouds_are_found_whatever_their_classes_are_called() -> None:
    points, classes = clouds(120, 4, 16, 0.1)
    for named in (classes, renamed(classes)):
        found = Clustering(named, reading(120)).score(size(points), size(points))["v_measure"]
        assert found.value == found.high == pytest.approx(1.0)
    noise = Clustering(classes, reading(120)).score(size(points), size(torch.randn(120, 16)))["v_measure"]
    assert noise.value < 0.2
    assert noise.low is not None and noise.high is not None and noise.low < noise.value < noise.high
    assert torch.equal(clusters(points, 4), clusters(3 * points, 4))
