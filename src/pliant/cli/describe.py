"""`pliant describe`: what a model is made of."""

from dataclasses import asdict
from itertools import groupby
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from pliant.anatomy import Anatomy, Site
from pliant.batches import precision_of
from pliant.checkpoint import Checkpoint, open_checkpoint
from pliant.cli.console import Json, check_positive, emit, progress, show, show_notes
from pliant.families import describe as describe_model


def describe(
    model: Annotated[str, typer.Argument(help="A checkpoint's directory, a Hugging Face name, or demo:text.")],
    tokens: Annotated[int | None, typer.Option(help="Input length that MACs are stated at.")] = None,
    as_json: Json = False,
) -> None:
    """Show a model's layers, how many units each has, and what they cost."""
    if tokens is not None:
        check_positive(tokens, "--tokens")
    with progress(quiet=True):
        checkpoint = open_checkpoint(model)
    anatomy = describe_model(checkpoint.model)
    usage = _usage(checkpoint, anatomy)
    if as_json:
        emit({**_summary(model, anatomy, tokens), **usage})
        return
    show(_table(model, anatomy, usage, tokens or anatomy.native_tokens), quiet=False)
    show_notes(usage["notes"], quiet=False)


def _usage(checkpoint: Checkpoint, anatomy: Anatomy) -> dict[str, Any]:
    """Return how the model is meant to be used, and in what precision its weights are."""
    conventions = checkpoint.conventions
    source = conventions.source if checkpoint.pooling else "the family's"
    if conventions.unknown:
        source = f"the family's; pliant doesn't know its own, {conventions.unknown}, which {conventions.source} names"
    return {
        "pooling": checkpoint.pooling or anatomy.pooling,
        "pooling_source": source,
        "prompts": asdict(conventions.prompts),
        "dtype": precision_of(checkpoint.model),
        "notes": [*anatomy.notes, *conventions.notes],
    }


def _summary(model: str, anatomy: Anatomy, tokens: int | None) -> dict[str, Any]:
    return {
        "model": model,
        "family": anatomy.family,
        "units": anatomy.units,
        "prunable_parameters": anatomy.prunable_parameters,
        "total_parameters": anatomy.total_parameters,
        "tokens": tokens or anatomy.native_tokens,
        "macs": anatomy.macs(tokens),
        "sites": [
            {"name": site.name, "kind": site.kind, "units": site.units, "unit_parameters": site.unit_parameters}
            for site in anatomy.sites
        ],
    }


def _table(model: str, anatomy: Anatomy, usage: dict[str, Any], tokens: int) -> Table:
    pooling = f"pooling {usage['pooling']} ({usage['pooling_source']})"
    prompts = [f"\nbefore a {name}: {text!r}" for name, text in usage["prompts"].items() if text]
    prunable, total = anatomy.prunable_parameters, anatomy.total_parameters
    table = Table(
        title=Text(f"{model}: family {anatomy.family}, {pooling}, {usage['dtype']}{''.join(prompts)}"),
        caption=(
            f"{anatomy.units:,} units. {prunable:,} of {total:,} parameters are prunable ({prunable / total:.0%}). "
            f"{anatomy.macs(tokens) / 1e9:.2f} G MACs for an input of {tokens} tokens."
        ),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
    )
    for name in ("layers", "heads", "neurons", "parameters of a head", "of a neuron"):
        table.add_column(name, justify="right")
    layers = [tuple(sites) for _, sites in groupby(anatomy.sites, key=lambda site: site.layer)]
    for shape, alike in groupby(layers, key=_shape):
        indices = [sites[0].layer for sites in alike]
        span = f"{indices[0]}" if len(indices) == 1 else f"{indices[0]}–{indices[-1]}"
        table.add_row(span, *(f"{number:,}" for number in shape))
    return table


def _shape(sites: tuple[Site, ...]) -> tuple[int, ...]:
    heads, neurons = sites
    return (heads.units, neurons.units, heads.unit_parameters, neurons.unit_parameters)
