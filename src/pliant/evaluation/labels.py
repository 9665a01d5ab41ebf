"""What the metrics are called where people read them."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Label:
    """A metric's name for readers.

    Args:
        task: The task that measures it: what it stands under.
        name: What it is called, in lines of a narrow column.
        shown: Whether a table for the terminal has it: `main` always, `more` where there is room, `file` never.
        of_full: Whether the share of the full model's own value is shown too.
        compared: Whether rankers are compared by it.
    """

    task: str
    name: str
    shown: Literal["main", "more", "file"] = "main"
    of_full: bool = False
    compared: bool = False


MTEB = "mteb."
"""What the names of the main scores of MTEB's tasks begin with."""

LABELS = {
    "cosine": Label("fidelity", "cosine", compared=True),
    "worst_cosine": Label("fidelity", "worst\n5 %"),
    "cka": Label("fidelity", "CKA", "more"),
    "token_cosine": Label("dense", "cosine\nof tokens", compared=True),
    "ndcg_slim_queries": Label("retrieval", "nDCG@10\nslim queries", of_full=True, compared=True),
    "ndcg_both_slim": Label("retrieval", "nDCG@10\nboth slim", "more"),
    "ndcg_slim_documents": Label("retrieval", "nDCG@10\nslim docs", "more"),
    "recall_slim_queries": Label("retrieval", "recall\n@10", "file"),
    "recall_both_slim": Label("retrieval", "recall\nboth slim", "file"),
    "recall_slim_documents": Label("retrieval", "recall\nslim docs", "file"),
    "mrr_slim_queries": Label("retrieval", "MRR", "file"),
    "mrr_both_slim": Label("retrieval", "MRR\nboth slim", "file"),
    "mrr_slim_documents": Label("retrieval", "MRR\nslim docs", "file"),
    "knn_both_slim": Label("knn", "accuracy\nboth slim", of_full=True, compared=True),
    "knn_slim_queries": Label("knn", "slim, among\nfull examples", "more"),
    "probe_refitted": Label("probe", "accuracy\nrefitted", of_full=True, compared=True),
    "probe_kept": Label("probe", "full model's\nprobe kept"),
    "sts_spearman": Label("sts", "Spearman", of_full=True, compared=True),
    "v_measure": Label("clustering", "v-measure", of_full=True, compared=True),
    "head_top1": Label("head", "top-1", of_full=True, compared=True),
    "head_agreement": Label("head", "agrees\nwith full", "more"),
}
"""Every metric that pliant measures by itself, by its name in the JSON."""


def label_of(metric: str) -> Label:
    """Return what a metric is called; one of the user's own has its own name, and MTEB's have that of their task."""
    if metric.startswith(MTEB):
        return Label("MTEB, main scores", metric.removeprefix(MTEB), of_full=True, compared=True)
    return LABELS.get(metric) or Label(metric.partition(".")[0], metric, of_full=True, compared=True)
