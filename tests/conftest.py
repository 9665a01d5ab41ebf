"""What every test starts from: one thread, fixed seeds, no network."""

import os
import random
import socket
from collections.abc import Iterator
from typing import Any

import hypothesis
import numpy
import pytest
import torch

# A shared machine can be slow at any moment, so no example has a deadline; in CI the examples are always the same.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


class NetworkUsed(AssertionError):
    """A test tried to reach another machine."""


@pytest.fixture(autouse=True, scope="session")
def single_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and address[0] not in _LOOPBACK:
            self.close()
            raise NetworkUsed(f"tests are offline, but something connects to {address[0]!r}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield


@pytest.fixture(autouse=True)
def seeds() -> None:
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)
