import socket

import pytest
import torch


def test_another_machine_cannot_be_reached() -> None:
    with pytest.raises(AssertionError, match="tests are offline"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)


def test_this_machine_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()


def test_the_hub_is_offline() -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    assert constants.HF_HUB_OFFLINE


@pytest.mark.parametrize("turn", ["first", "second"])
def test_each_test_starts_from_the_same_seed(turn: str) -> None:
    assert torch.rand(()).item() == pytest.approx(0.4962566)
    assert torch.get_num_threads() == 1
