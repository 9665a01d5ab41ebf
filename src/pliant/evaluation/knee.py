"""The knee of a curve: the size beyond which quality falls faster than the model shrinks."""

from pliant.evaluation.curve import Curve, Point

_CLEAR = 0.05
"""How far above the straight line a point must lie to be a knee, as a share of the whole fall."""


def knee(curve: Curve, metric: str = "cosine") -> Point | None:
    """Return the point of a curve that lies highest above the straight line from the full model to the smallest size.

    Both axes are scaled to the whole: sparsity by the highest one, the metric by its fall from the full model.

    Args:
        curve: The curve.
        metric: One that is better when higher; `cosine` needs no value of the full model, which has 1.

    Returns:
        The point; None where the curve has fewer than three sizes, doesn't fall, or bends so little that no size stands
        out.

    Source:
        Satopää, Albrecht, Irwin and Raghavan, "Finding a 'Kneedle' in a Haystack" (2011), for one sweep without
        smoothing.
    """
    found = [(point, value) for point in curve.points if (value := point.value(metric)) is not None]
    full = 1.0 if metric == "cosine" else curve.full_value(metric)
    if full is None or len(found) < 3:
        return None
    last, lowest = found[-1]
    if lowest >= full or last.sparsity <= 0:
        return None
    heights = [(value - lowest) / (full - lowest) - (1 - point.sparsity / last.sparsity) for point, value in found[:-1]]
    highest = max(heights)
    return found[heights.index(highest)][0] if highest >= _CLEAR else None
