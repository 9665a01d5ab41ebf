"""Two sizes of a model as one encoder that mteb can ask: queries by one of them, documents by the other."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Embed = Callable[[Sequence[Any]], Tensor]
"""Gives the embeddings `[inputs, width]` of texts or images."""


class MtebEncoder:
    """What mteb calls an encoder (its `EncoderProtocol`).

    Args:
        queries: Embeds queries, and whatever a task doesn't call a document.
        documents: Embeds documents.
        inputs: What both read: `text` or `image`.
    """

    def __init__(self, queries: Embed, documents: Embed, inputs: str) -> None:
        """Embed nothing yet."""
        from mteb.models.model_meta import ModelMeta

        self.queries, self.documents, self.inputs = queries, documents, inputs
        # By this, mteb refuses tasks on other kinds of inputs.
        self.mteb_model_meta = ModelMeta.create_empty({"modalities": [inputs]})

    def encode(
        self, inputs: Iterable[Mapping[str, Sequence[Any]]], *, prompt_type: str | None = None, **context: Any
    ) -> Tensor:
        """Return the embeddings of all inputs, float32 `[inputs, width]`.

        Args:
            inputs: Batches, with a list for each kind of input.
            prompt_type: `query`, `document`, or None where a task tells no two kinds apart.
            context: What else mteb says of them: the task, its split and language. It changes nothing here.
        """
        items = [item for batch in inputs for item in batch[self.inputs]]
        return self.documents(items) if prompt_type == "document" else self.queries(items)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Return the cosine of each of the first with each of the second, `[first, second]`."""
        return _directions(embeddings1) @ _directions(embeddings2).T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Return the cosine of each of the first with its partner among the second, `[pairs]`."""
        return (_directions(embeddings1) * _directions(embeddings2)).sum(dim=-1)


def _directions(embeddings: Any) -> Tensor:
    return functional.normalize(torch.as_tensor(embeddings).float(), dim=-1)
