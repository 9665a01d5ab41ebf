"""Small tasks of MTEB whose data is here, so that nothing is fetched. Import this only where mteb is installed."""

from importlib import import_module
from typing import Any

from cli.specimens import sentences
from mteb.abstasks import AbsTaskClassification, AbsTaskRetrieval
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from PIL.Image import new

# A folder of tests has the same name.
datasets = import_module("datasets")

QUERIES, DOCUMENTS = sentences(8, seed=2), sentences(12, seed=1)
FIRST, SECOND = (sentences(8, seed=seed) for seed in (3, 4))
SCORES = [float(number % 5) for number in range(8)]


def metadata(name: str, kind: Any, score: str, **changes: Any) -> TaskMetadata:
    about: dict[str, Any] = {
        "name": name,
        "description": "Made for tests.",
        "type": kind,
        "main_score": score,
        "eval_langs": ["eng-Latn"],
        "eval_splits": ["test"],
        "dataset": {"path": "nobody/nothing", "revision": "1"},
        "category": "t2t",
        "modalities": ["text"],
    }
    return TaskMetadata(**{**about, **changes})


class Search(AbsTaskRetrieval):
    """Query i belongs to document i."""

    metadata = metadata("OurSearch", "Retrieval", "ndcg_at_10")

    def load_data(self, num_proc: Any = None, *, timer: Any = None, **options: Any) -> None:
        sides = {"queries": ("q", QUERIES), "corpus": ("d", DOCUMENTS)}
        split: Any = {
            side: datasets.Dataset.from_list([{"id": f"{letter}{i}", "text": text} for i, text in enumerate(texts)])
            for side, (letter, texts) in sides.items()
        }
        relevant = {f"q{i}": {f"d{i}": 1} for i in range(len(QUERIES))}
        split |= {"relevant_docs": relevant, "top_ranked": None}
        self.dataset = {"default": {"test": split}}
        self.data_loaded = True


class Pairs(AbsTaskSTS):
    metadata = metadata("OurPairs", "STS", "cosine_spearman")
    min_score, max_score = 0, 5

    def load_data(self, num_proc: Any = None, *, timer: Any = None, **options: Any) -> None:
        splits: Any = datasets.DatasetDict(
            {"test": datasets.Dataset.from_dict({"sentence1": FIRST, "sentence2": SECOND, "score": SCORES})}
        )
        self.dataset = splits
        self.data_loaded = True


class Draws(Pairs):
    """Its score is drawn by the task's own generators."""

    metadata = metadata("OurDraws", "STS", "cosine_spearman")
    score: Any = None

    def _evaluate_subset(self, *given: Any, **options: Any) -> Any:
        return {"cosine_spearman": self.np_rng.random() + self.rng_state.random() if self.score is None else self.score}


class Nowhere(Pairs):
    """It has no data."""

    metadata = metadata("OurNowhere", "STS", "cosine_spearman")

    def load_data(self, num_proc: Any = None, *, timer: Any = None, **options: Any) -> None:
        raise ConnectionError("Couldn't reach the hub.")


class Broken(Draws):
    metadata = metadata("OurBroken", "STS", "cosine_spearman")

    def _evaluate_subset(self, *given: Any, **options: Any) -> Any:
        raise ValueError("Nothing to compare.")


class Colors(AbsTaskClassification):
    """Which of two colours an image has."""

    metadata = metadata("OurColors", "ImageClassification", "accuracy", category="i2c", modalities=["image"])
    input_column_name = "image"
    samples_per_label, n_experiments = 2, 2

    def load_data(self, num_proc: Any = None, *, timer: Any = None, **options: Any) -> None:
        colors = ("red", "blue")
        rows = [{"image": new("RGB", (4 + i, 4), colors[i % 2]), "label": i % 2} for i in range(8)]
        split = datasets.Dataset.from_list(rows).cast_column("image", datasets.Image())
        splits: Any = datasets.DatasetDict({"train": split, "test": split})
        self.dataset = splits
        self.data_loaded = True
