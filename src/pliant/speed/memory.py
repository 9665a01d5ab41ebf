"""What a model's activations take at most while it runs."""

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pliant.batches import Batch, device_of, forward
from pliant.machine import synchronize


def peak_bytes(model: nn.Module, batch: Batch) -> int | None:
    """Return the most memory that a model's activations take at one time, its outputs included.

    On an NVIDIA GPU, what torch's allocator hands out while the model runs. On a CPU, the tensors that its operations
    return; what an operation needs for itself meanwhile isn't seen.

    Args:
        model: The model; its weights don't count.
        batch: What it is called with; that doesn't count either.

    Returns:
        Bytes, or None on other devices.

    Example:
        >>> import torch
        >>> layers = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
        >>> peak_bytes(layers, torch.zeros(2, 8)) == 2 * (64 + 64) * 4
        True
    """
    device = device_of(model)
    with torch.inference_mode():
        if device.type == "cuda":
            return _allocated(device, lambda: forward(model, batch))
        return _returned(model, batch) if device.type == "cpu" else None


def _allocated(device: torch.device, run: Callable[[], Any]) -> int:
    synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    kept = run()
    synchronize(device)
    del kept
    return torch.cuda.max_memory_allocated(device) - before


def _returned(model: nn.Module, batch: Batch) -> int:
    given = [batch] if isinstance(batch, Tensor) else list(batch.values())
    lasting = [*model.parameters(), *model.buffers(), *given]
    with _Ledger({tensor.untyped_storage().data_ptr() for tensor in lasting}) as ledger:
        forward(model, batch)
    return ledger.peak


class _Ledger(TorchDispatchMode):
    """Adds up the tensors that are alive, from when an operation returns them to when nobody holds them."""

    def __init__(self, lasting: set[int]) -> None:
        super().__init__()
        self.peak = 0
        self._now = 0
        self._known = lasting

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor):
                self._note(tensor.untyped_storage())
        return found

    def _note(self, storage: torch.UntypedStorage) -> None:
        address, size = storage.data_ptr(), storage.nbytes()
        if address in self._known or not size:
            return
        self._known.add(address)
        self._now += size
        self.peak = max(self.peak, self._now)
        weakref.finalize(storage, self._forget, address, size)

    def _forget(self, address: int, size: int) -> None:
        self._known.discard(address)
        self._now -= size
