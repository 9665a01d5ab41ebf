"""What a size keeps: fidelity and retrieval over the sizes, as numbers, charts and a report."""

from pliant.evaluation.charts import check_plot, kept_plot, plot
from pliant.evaluation.curve import Curve, Point
from pliant.evaluation.embedding import embed
from pliant.evaluation.kept import Kept
from pliant.evaluation.report import write_report
from pliant.evaluation.retrieval import RetrievalTask, ndcg
from pliant.evaluation.terminal import table
from pliant.evaluation.texts import measure

__all__ = [
    "Curve",
    "Kept",
    "Point",
    "RetrievalTask",
    "check_plot",
    "embed",
    "kept_plot",
    "measure",
    "ndcg",
    "plot",
    "table",
    "write_report",
]
