"""The curve: what each size of an elastic model keeps, in fidelity and in retrieval."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from pliant.errors import InputError

NDCG_AT = 10
"""The first documents that count in a curve's nDCG."""


@dataclass(frozen=True)
class Point:
    """One size of a curve.

    Args:
        sparsity: What was asked for.
        achieved_sparsity: Removed fraction of the prunable parameters, after alignment.
        parameters: All parameters of the slim model.
        macs: Multiply-accumulates for one input of the curve's `tokens`.
        cosine: Mean cosine similarity to the full model's embeddings.
        worst_cosine: 5th percentile of that similarity.
        ndcg_slim_queries: nDCG@10 with queries by the slim and documents by the full model; None without a task.
        ndcg_both_slim: nDCG@10 with both by the slim model; None without a task.
        token_cosine: Mean cosine similarity to the full model's token outputs; None where they weren't measured.
    """

    sparsity: float
    achieved_sparsity: float
    parameters: int
    macs: int
    cosine: float
    worst_cosine: float
    ndcg_slim_queries: float | None = None
    ndcg_both_slim: float | None = None
    token_cosine: float | None = None


@dataclass(frozen=True)
class Curve:
    """What each size of one model, ranked in one way, keeps.

    Args:
        model: The model's name.
        ranker: How its units were ranked.
        task: What it was measured on.
        full_ndcg: nDCG@10 of the full model; None without a retrieval task.
        points: The sizes, from the largest model to the smallest.
        tokens: Length of the input that MACs are given for.
        full_parameters: All parameters of the full model.
        full_macs: Multiply-accumulates of the full model for one input of `tokens`.
    """

    model: str
    ranker: str
    task: str
    full_ndcg: float | None
    points: tuple[Point, ...]
    tokens: int
    full_parameters: int
    full_macs: int

    @property
    def has_tokens(self) -> bool:
        """Whether token outputs were compared too."""
        return any(point.token_cosine is not None for point in self.points)

    def at(self, sparsity: float) -> Point | None:
        """Return the point for which `sparsity` was asked, if there is one."""
        return next((point for point in self.points if point.sparsity == sparsity), None)

    def to_json(self) -> dict[str, Any]:
        """Return the curve as a dictionary that JSON can hold."""
        return {**asdict(self), "points": [asdict(point) for point in self.points]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Curve":
        """Return the curve that `to_json` wrote.

        Raises:
            InputError: A field is missing, or one is unknown.
        """
        _check_fields(cls, data)
        for point in data["points"]:
            _check_fields(Point, point)
        return cls(**{**data, "points": tuple(Point(**point) for point in data["points"])})


def _check_fields(kind: type[Curve] | type[Point], data: Mapping[str, Any]) -> None:
    wanted = {field.name for field in fields(kind)}
    if set(data) != wanted:
        raise InputError(
            f"Not a saved {kind.__name__.lower()}: missing {sorted(wanted - set(data))}, unknown "
            f"{sorted(set(data) - wanted)}. Measure it again with this version."
        )
