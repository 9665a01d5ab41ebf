"""`pliant cut`: a standalone smaller model from an elastic directory."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pliant.artefacts import load_elastic, write_cut
from pliant.cli.console import Json, Quiet, emit, progress, show
from pliant.elastic import Elastic
from pliant.errors import InputError
from pliant.files import refuse_existing
from pliant.times import Times

_FORMS = ("exact",)
_FORMATS = ("torch",)


def cut(
    directory: Annotated[Path, typer.Argument(help="An elastic directory.")],
    out: Annotated[Path, typer.Option(help="The directory to write.")],
    sparsity: Annotated[float | None, typer.Option(help="Fraction of the prunable parameters to remove.")] = None,
    params: Annotated[float | None, typer.Option(help="Parameters that the whole model may have.")] = None,
    macs: Annotated[float | None, typer.Option(help="Multiply-accumulates that one input may cost.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Input length that MACs are stated at.")] = None,
    latency_ms: Annotated[float | None, typer.Option(help="Milliseconds that one input may take, as measured.")] = None,
    throughput: Annotated[float | None, typer.Option(help="Inputs that there must be in a second.")] = None,
    form: Annotated[str, typer.Option(help="exact: every site has its own width.")] = "exact",
    file_format: Annotated[str, typer.Option("--format", help="torch: safetensors and a configuration.")] = "torch",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a standalone model of a given size; `pliant.load_cut` loads it."""
    if form not in _FORMS:
        raise InputError(f"Unknown --form {form!r}. Allowed: {', '.join(_FORMS)}.")
    if file_format not in _FORMATS:
        raise InputError(f"Unknown --format {file_format!r}. Allowed: {', '.join(_FORMATS)}.")
    refuse_existing(out)
    with progress(quiet or as_json) as report:
        checkpoint, ranking = load_elastic(directory)
        elastic = Elastic(checkpoint.model, ranking)
        elastic.use_times_(Times.load(directory))
        timed = {"latency_ms": latency_ms, "throughput": throughput}
        plan = elastic.plan(sparsity=sparsity, params=params, macs=macs, tokens=tokens, **timed)
        report("writing", 0.5)
        small = elastic.cut(sparsity=sparsity, params=params, macs=macs, tokens=tokens, **timed)
        write_cut(out, small, plan.widths, checkpoint)
    cost = elastic.cost(plan, tokens)
    if as_json:
        emit({"directory": str(out), "widths": list(plan.widths), **asdict(cost)})
        return
    size = f"{cost.parameters:,} parameters, {cost.macs / 1e9:.2f} G MACs at {cost.tokens} tokens"
    show(f"{out} holds the cut: sparsity {cost.sparsity:.4f}, {size}.", quiet)
