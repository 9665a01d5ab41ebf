"""Retrieval: do a query's documents come first, with queries, documents or both by a slim model."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from pliant.errors import InputError
from pliant.evaluation.metric import Metric, mean_metric
from pliant.evaluation.reading import Reading
from pliant.evaluation.retrieval import RetrievalTask, query_scores
from pliant.evaluation.tasks.task import Size

AT = 10
"""The first documents that count in nDCG and recall."""

MODES = ("slim_queries", "both_slim", "slim_documents")
"""Whose embeddings are searched with and in: a slim model's and the full one's, one's alone, or the other way round."""

SCORES = ("ndcg", "recall", "mrr")


@dataclass(frozen=True, eq=False)
class Retrieval:
    """nDCG@10, recall@10 and MRR of cosine similarity, in three modes.

    Args:
        data: Queries, documents, and which belong together.
        reading: The queries and after them the documents.

    Raises:
        InputError: The reading has another number of inputs.
    """

    data: RetrievalTask
    reading: Reading

    def __post_init__(self) -> None:
        """Refuse inputs of another task."""
        wanted = len(self.data.queries) + len(self.data.documents)
        if len(self.reading.items) != wanted:
            raise InputError(f"{len(self.reading.items)} inputs for {wanted} queries and documents. Read all of them.")

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The queries and documents."""
        return (self.reading,)

    def score(self, full: Size, slim: Size) -> Mapping[str, Metric]:
        """Search in all modes."""
        theirs = full(self.reading).embeddings
        ours = theirs if slim is full else slim(self.reading).embeddings
        first = len(self.data.queries)
        sides = {
            "slim_queries": (ours[:first], theirs[first:]),
            "both_slim": (ours[:first], ours[first:]),
            "slim_documents": (theirs[:first], ours[first:]),
        }
        if slim is full:
            # All modes are one.
            found = query_scores(*sides["both_slim"], self.data.relevant, AT)
            per_mode = dict.fromkeys(MODES, found)
        else:
            per_mode = {mode: query_scores(*sides[mode], self.data.relevant, AT) for mode in MODES}
        return {
            f"{score}_{mode}": mean_metric(getattr(per_mode[mode], score)) for score, mode in product(SCORES, MODES)
        }
