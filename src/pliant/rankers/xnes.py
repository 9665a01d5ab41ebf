"""xNES: a search without gradients, by a normal distribution that follows what did well."""

import math
from collections.abc import Callable

import torch
from torch import Tensor


def minimise(
    function: Callable[[Tensor], float], start: Tensor, evaluations: int, generator: torch.Generator, spread: float
) -> Tensor:
    """Return the best of the points at which a function was evaluated, the first of which is `start`.

    Each generation draws λ = 4 + ⌊3 ln d⌋ points x = μ + σ B z, z normal, and follows the natural gradient: with
    utilities u by rank, δ = Σ u z, M = Σ u (z zᵀ − 1), t = tr M / d and η = (9 + 3 ln d) / (5 d √d) it sets
    μ ← μ + σ B δ, σ ← σ exp(η t / 2) and B ← B exp(η (M − t) / 2).

    Args:
        function: What to make small, of a float64 tensor `[d]`.
        start: Where to begin, float64 `[d]`.
        evaluations: How often the function is evaluated, at most.
        generator: Of the points.
        spread: σ at the beginning.

    Returns:
        The best point `[d]`; `start` where there are no evaluations.

    Source:
        Glasmachers, Schaul, Yi, Wierstra and Schmidhuber, "Exponential Natural Evolution Strategies", GECCO 2010.
    """
    if evaluations < 1:
        return start
    size, population = len(start), 4 + int(3 * math.log(len(start)))
    utilities, rate = _utilities(population), (9 + 3 * math.log(size)) / (5 * size * math.sqrt(size))
    centre, sigma, shape = start.clone(), spread, torch.eye(size, dtype=torch.float64)
    best, least = start, function(start)
    left = evaluations - 1
    while left > 0:
        drawn = torch.randn(population, size, generator=generator, dtype=torch.float64)
        points = [centre + sigma * shape @ z for z in drawn[:left]]
        values = [function(point) for point in points]
        left -= len(points)
        for point, value in zip(points, values, strict=True):
            if value < least:
                best, least = point, value
        if len(points) < population:
            break
        order = sorted(range(population), key=values.__getitem__)
        ranked = drawn[order]
        delta = utilities @ ranked
        moment = (ranked * utilities.unsqueeze(1)).T @ ranked
        growth = moment.trace() / size
        centre = centre + sigma * shape @ delta
        sigma *= math.exp(rate * growth.item() / 2)
        shape = shape @ torch.linalg.matrix_exp(rate / 2 * (moment - growth * torch.eye(size, dtype=torch.float64)))
    return best


def _utilities(population: int) -> Tensor:
    """Return what each point counts, from the best to the worst; the sum is zero."""
    places = torch.arange(1, population + 1, dtype=torch.float64)
    raw = (math.log(population / 2 + 1) - places.log()).clamp(min=0)
    return raw / raw.sum() - 1 / population
