"""From a measurement of speed to the times that budgets of time rest on."""

from pliant.elastic import Elastic
from pliant.errors import InputError
from pliant.machine import description
from pliant.speed.result import Speed
from pliant.times import Times


def times_of(speed: Speed, elastic: Elastic, margin: float = 0.1) -> Times:
    """Return what the views of a model were measured to take: one input for latency, the largest batch for throughput.

    Args:
        speed: The measurement, batches of one input among it.
        elastic: The model that was measured.
        margin: The share by which a size may take longer than measured.

    Raises:
        InputError: Batches of one input weren't timed, or the margin is negative.
    """
    if 1 not in speed.batch_sizes:
        raise InputError(f"Batches of {speed.batch_sizes} were timed, but latency is that of one input. Time 1 too.")
    views, largest = speed.of("view"), max(speed.batch_sizes)
    return Times(
        machine=description(speed.device_name, speed.device, speed.threads, speed.precision),
        tokens=speed.tokens,
        batch_size=largest,
        sparsities=tuple(size.sparsity for size in views),
        widths=tuple(elastic.plan(sparsity=size.sparsity).widths for size in views),
        latency_ms=tuple(size.timing(1).p50_ms for size in views),
        batch_ms=tuple(size.timing(largest).p50_ms for size in views),
        margin=margin,
    )
