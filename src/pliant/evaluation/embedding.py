"""Embeddings of many inputs, made without touching the model."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from pliant.batches import Batch, device_of, forward, size, to_device
from pliant.errors import InputError
from pliant.pooling import check_pooling, pool


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout and gradients off while the block runs; each module's training flag is as before afterwards."""
    # Dropout would make embeddings random; only modules that train are switched, and each back to what it was.
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        # Not inference_mode: some models keep what they make at a first call, such as positions, and train with it
        # later.
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


def check_embedding_pooling(pooling: str) -> None:
    """Raise `InputError` unless the pooling gives one embedding per input."""
    if check_pooling(pooling) == "tokens":
        raise InputError(
            "Pooling 'tokens' gives one vector per token, not one embedding per input. Use cls, mean, last or pooler."
        )


def check_embedding(embedding: Tensor, first: int) -> None:
    """Raise `InputError` unless embeddings are `[batch, width]` and finite; the first is of input `first`."""
    if embedding.dim() != 2:
        raise InputError(
            f"The model's result has shape {list(embedding.shape)}; an embedding is [batch, width]. Choose a pooling."
        )
    broken = (~embedding.isfinite().all(dim=1)).nonzero()
    if len(broken):
        raise InputError(
            f"The embedding of input {first + int(broken[0])} is not finite. "
            "Load the model in float32, and check that the input isn't empty."
        )


def embed(
    model: nn.Module, batches: Iterable[Batch], pooling: str, *, progress: Callable[[int], None] | None = None
) -> Tensor:
    """Return the embeddings `[inputs, width]` of all inputs, in order, as float32 on the CPU.

    The model runs without dropout and without gradients; each module's training flag is as before afterwards.

    Args:
        model: The encoder.
        batches: The model's inputs.
        pooling: How token outputs become one embedding: `cls`, `mean`, `last` or `pooler`.
        progress: Called after each batch with the number of inputs done so far.

    Raises:
        InputError: There are no batches, the pooling gives no single embedding, or an embedding is not finite.
    """
    check_embedding_pooling(pooling)
    device = device_of(model)
    embeddings: list[Tensor] = []
    done = 0
    with evaluating(model):
        for batch in batches:
            inputs = to_device(batch, device)
            embedding = pool(forward(model, inputs), inputs, pooling).float().cpu()
            check_embedding(embedding, done)
            embeddings.append(embedding)
            done += size(batch)
            if progress is not None:
                progress(done)
    if not embeddings:
        raise InputError("There are no batches to embed. Pass at least one input.")
    return torch.cat(embeddings)


def embed_texts(
    model: nn.Module,
    texts: Sequence[str],
    batches_of: Callable[[Sequence[str]], Iterable[Batch]],
    pooling: str,
    *,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """Return the embeddings `[texts, width]`, in the order of `texts`, batching texts of like length together.

    Args:
        model: The encoder.
        texts: What to embed.
        batches_of: Makes the model's inputs from texts, in their order.
        pooling: How token outputs become one embedding: `cls`, `mean`, `last` or `pooler`.
        progress: Called after each batch with the number of texts done so far.

    Raises:
        InputError: As `embed`; or `batches_of` dropped or added inputs.
    """
    # The longest first: what doesn't fit in memory fails at once, not at the end.
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    embeddings = embed(model, batches_of([texts[i] for i in order]), pooling, progress=progress)
    if len(embeddings) != len(texts):
        raise InputError(
            f"The batches hold {len(embeddings)} inputs for {len(texts)} texts. Every text must become one input; "
            "don't drop the last batch."
        )
    restored = torch.empty_like(embeddings)
    restored[torch.tensor(order)] = embeddings
    return restored
