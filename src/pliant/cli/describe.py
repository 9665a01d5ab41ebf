"""`pliant describe`: what a model is made of."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from pliant.anatomy import Anatomy, Site
from pliant.batches import precision_of
from pliant.checkpoint import Checkpoint, open_checkpoint
from pliant.cli import zoo
from pliant.cli.console import Json, check_positive, emit, progress, show
from pliant.evaluation.formatting import NO_VALUE, quantity
from pliant.families import ZOO, Encoder
from pliant.families import describe as describe_model

ZOO_TABLE = "zoo"
"""What to describe instead of a model, for the table of all named encoders."""


def describe(
    model: Annotated[
        str,
        typer.Argument(
            help="A checkpoint's directory, a Hugging Face or timm name, demo:text, demo:vision, an encoder of the "
            "zoo, or zoo for them all."
        ),
    ],
    tokens: Annotated[int | None, typer.Option(help="Input length that MACs are stated at.")] = None,
    as_json: Json = False,
) -> None:
    """Show a model's layers, their units and what these cost; of an encoder of the zoo, without its weights."""
    if tokens is not None:
        check_positive(tokens, "--tokens")
    with progress(quiet=True):
        if model == ZOO_TABLE and not Path(model).is_dir():
            result = zoo.summary(tokens) if as_json else zoo.report(tokens)
        else:
            found = _found(model)
            result = _summary(found, tokens) if as_json else _report(found, tokens or found.anatomy.native_tokens)
    if isinstance(result, dict):
        emit(result)
    else:
        show(result, quiet=False)


class _Found(NamedTuple):
    """A model that was found: what it is called, its anatomy, its pooling, the zoo's word on it, and its own."""

    name: str
    anatomy: Anatomy
    pooling: str
    encoder: Encoder | None
    usage: dict[str, Any]


def _found(name: str) -> _Found:
    """Look a model up: a directory first, then the zoo, which needs no weights, then wherever checkpoints are."""
    encoder = ZOO.get(name)
    if encoder is not None and not Path(name).is_dir():
        anatomy = encoder.anatomy()
        return _Found(name, anatomy, encoder.pooling, encoder, {"notes": list(anatomy.notes)})
    checkpoint = open_checkpoint(name)
    anatomy = describe_model(checkpoint.model)
    usage = _usage(checkpoint, anatomy)
    return _Found(name, anatomy, usage["pooling"], None, usage)


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


def _summary(found: _Found, tokens: int | None) -> dict[str, Any]:
    anatomy = found.anatomy
    return {
        "model": found.name,
        "family": anatomy.family,
        "pooling": found.pooling,
        "objective": anatomy.objective,
        "licence": found.encoder.licence if found.encoder else None,
        "units": anatomy.units,
        "prunable_parameters": anatomy.prunable_parameters,
        "total_parameters": anatomy.total_parameters,
        "tokens": tokens or anatomy.native_tokens,
        "macs": anatomy.macs(tokens),
        **found.usage,
        "sites": [
            {"name": site.name, "kind": site.kind, "units": site.units, "unit_parameters": site.unit_parameters}
            for site in anatomy.sites
        ],
    }


def _title(found: _Found) -> str:
    usage = found.usage
    pooling = found.pooling if found.encoder else f"{found.pooling} ({usage['pooling_source']})"
    told = [f"family {found.anatomy.family}", f"pooling {pooling}", f"objective {found.anatomy.objective}"]
    told += [usage["dtype"]] if "dtype" in usage else []
    prompts = [f"\nbefore a {name}: {text!r}" for name, text in usage.get("prompts", {}).items() if text]
    return f"{found.name}: {', '.join(told)}{''.join(prompts)}"


def _report(found: _Found, tokens: int) -> Group:
    anatomy = found.anatomy
    title = Text(_title(found), style="italic")
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("layers", "heads", "neurons", "parameters of a head", "of a neuron"):
        table.add_column(name, justify="right")
    layers = [tuple(sites) for _, sites in groupby(anatomy.sites, key=lambda site: site.layer)]
    for shape, alike in groupby(layers, key=_shape):
        indices = [sites[0].layer for sites in alike]
        span = f"{indices[0]}" if len(indices) == 1 else f"{indices[0]}–{indices[-1]}"
        table.add_row(span, *shape)
    return Group(title, table, *map(Text, _remarks(found, tokens)))


def _shape(sites: tuple[Site, ...]) -> tuple[str, ...]:
    """Return what one layer shows: units and the cost of one, by kind; a dash for a kind that can't be cut there."""
    by_kind = {site.kind: site for site in sites}
    heads, neurons = by_kind.get("heads"), by_kind.get("neurons")
    return (
        NO_VALUE if heads is None else _heads(heads),
        NO_VALUE if neurons is None else f"{neurons.units:,}",
        *(NO_VALUE if site is None else f"{site.unit_parameters:,}" for site in (heads, neurons)),
    )


def _heads(site: Site) -> str:
    """Return the number of heads: 12, or, where queries share keys and values, of groups and the heads of each."""
    queries = _queries(site)
    return f"{site.units:,}" if queries == 1 else f"{site.units:,} groups of {queries}"


def _queries(site: Site) -> int:
    """Return how many query heads one unit has."""
    return site.width // min(producer.rows for producer in site.producers)


def _remarks(found: _Found, tokens: int) -> Iterator[str]:
    anatomy = found.anatomy
    prunable, total = anatomy.prunable_parameters, anatomy.total_parameters
    yield (
        f"{anatomy.units:,} units. {prunable:,} of {total:,} parameters are prunable ({prunable / total:.1%}). "
        f"{quantity(anatomy.macs(tokens))} MACs for an input of {tokens:,} tokens."
    )
    if any(_queries(site) > 1 for site in anatomy.sites if site.kind == "heads"):
        yield "The query heads of a group share one key and one value, so a group leaves as a whole, as one unit."
    if found.encoder is not None:
        part = f" of its {found.encoder.part}" if found.encoder.part else ""
        yield f"From the public configuration{part}, without the weights. Their licence: {found.encoder.licence}."
    yield from (f"Note: {note}" for note in found.usage["notes"])
