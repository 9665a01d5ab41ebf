"""What is put before texts: as the user says, else as the ranking was made, else as the checkpoint has it."""

from typing import Annotated

import typer

from pliant.checkpoint import Checkpoint
from pliant.conventions import Prompts
from pliant.errors import InputError
from pliant.families import describe
from pliant.pooling import check_pooling
from pliant.ranking import Ranking

Prompt = Annotated[str | None, typer.Option(help="Put before all texts, in place of the model's own prompts.")]
QueryPrompt = Annotated[str | None, typer.Option(help="Put before queries, in place of the model's own prompt.")]
DocumentPrompt = Annotated[str | None, typer.Option(help="Put before documents, likewise.")]

AskedPrompts = tuple[str | None, str | None, str | None]
"""What the user wants before all texts, before queries and before documents."""


def prompts_of(checkpoint: Checkpoint, asked: AskedPrompts, ranking: Ranking | None = None) -> Prompts:
    """Return the prompts that texts get.

    Args:
        checkpoint: The model.
        asked: What the user wants before all texts, before queries and before documents.
        ranking: The ranking whose prompts count where the user wants nothing; by default the checkpoint's own do.

    Raises:
        InputError: The model reads no texts.
    """
    if checkpoint.inputs != "text":
        if any(prompt is not None for prompt in asked):
            raise InputError(f"{checkpoint.name} reads images, which have no prompts. Leave them out.")
        return Prompts()
    everywhere, query, document = asked
    usual = _ranked_with(ranking) or checkpoint.conventions.prompts
    if everywhere is not None:
        usual = Prompts(everywhere, everywhere)
    return Prompts(usual.query if query is None else query, usual.document if document is None else document)


def _ranked_with(ranking: Ranking | None) -> Prompts | None:
    used = None if ranking is None else ranking.provenance.get("calibration")
    if not isinstance(used, dict) or "query_prompt" not in used:
        return None
    return Prompts(used["query_prompt"], used["document_prompt"])


def usual_pooling(checkpoint: Checkpoint, asked: str | None, prompts: Prompts) -> str | None:
    """Return the pooling to rank for: what the user asks for, else the checkpoint's; None is the family's.

    Raises:
        InputError: What is asked for is no pooling; or the checkpoint's isn't one that pliant knows, leaves out the
            prompt's tokens, or is that of a pooler without weights.
    """
    conventions = checkpoint.conventions
    if asked is not None:
        check_pooling(asked)
    if asked is None and conventions.unknown:
        raise InputError(
            f"{checkpoint.name} pools by {conventions.unknown}, says {conventions.source}; pliant doesn't know that. "
            "Choose what to rank for by --pooling, such as --pooling mean."
        )
    pooling = asked or checkpoint.pooling
    if checkpoint.lacks_pooler and (pooling or describe(checkpoint.model).pooling) == "pooler":
        raise InputError(
            f"{checkpoint.name} has no weights for its pooler, so its embeddings would be random. "
            "Choose another --pooling: cls, mean, last or tokens."
        )
    if prompts.distinct and not conventions.prompt_is_pooled and pooling not in ("last", "pooler"):
        raise InputError(
            f"{checkpoint.name} leaves its prompt's tokens out of the pooling (include_prompt: false), which pliant "
            "can't. Rank and measure it without: --prompt ''."
        )
    return pooling


def prompted(texts: tuple[str, ...], prompts: tuple[str, ...]) -> tuple[str, ...]:
    """Return texts with prompts before them, in turn."""
    return tuple(prompts[index % len(prompts)] + text for index, text in enumerate(texts)) if prompts else texts
