"""What each size keeps, on any number of tasks, as numbers, charts and a report."""

from pliant.evaluation.charts import check_plot, kept_plot, plot
from pliant.evaluation.curve import Curve, Point
from pliant.evaluation.embedding import embed
from pliant.evaluation.kept import Kept
from pliant.evaluation.measure import measure
from pliant.evaluation.metric import Metric
from pliant.evaluation.report import write_report
from pliant.evaluation.retrieval import RetrievalTask
from pliant.evaluation.terminal import table

__all__ = [
    "Curve",
    "Kept",
    "Metric",
    "Point",
    "RetrievalTask",
    "check_plot",
    "embed",
    "kept_plot",
    "measure",
    "plot",
    "table",
    "write_report",
]
