import pytest
import torch
from evaluation.tasks.labelled import clouds, reading, size

from pliant.evaluation.tasks import knn
from pliant.evaluation.tasks.knn import Knn, nearest_class


def test_hand_computed_votes() -> None:
    angles = torch.deg2rad(torch.tensor([0.0, 10.0, 20.0, 80.0, 90.0]))
    examples = torch.stack([angles.cos(), angles.sin()], dim=1) * torch.tensor([[1.0], [9], [1], [5], [1]])
    codes = torch.tensor([2, 0, 0, 1, 1])
    asked = torch.tensor([[7.0, 0.0], [0.0, 0.1]])
    assert nearest_class(examples, codes, asked, k=1).tolist() == [2, 1]
    assert nearest_class(examples, codes, asked, k=3).tolist() == [0, 1]
    # All five vote: two for 0 and two for 1, of which the first wins.
    assert nearest_class(examples, codes, asked, k=9).tolist() == [0, 0]


@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_agrees_with_scikit_learn(spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    neighbors = pytest.importorskip("sklearn.neighbors")
    points, classes = clouds(200, 5, 6, spread)
    example, codes = classes.is_example, classes.codes
    theirs = neighbors.KNeighborsClassifier(n_neighbors=20, metric="cosine", algorithm="brute")
    theirs.fit(points[example].numpy(), codes[example].numpy())
    expected = theirs.predict(points[~example].numpy()).tolist()
    assert nearest_class(points[example], codes[example], points[~example]).tolist() == expected
    monkeypatch.setattr(knn, "_SIMILARITIES", 300)
    assert nearest_class(points[example], codes[example], points[~example]).tolist() == expected


def test_examples_are_the_size_s_own_or_the_full_model_s() -> None:
    full, classes = clouds(120, 3, 8, 0.2)
    slim = -full
    found = Knn(classes, reading(120)).score(size(full), size(slim))
    assert found["knn_both_slim"].value == 1.0
    assert found["knn_slim_queries"].value < 0.5
