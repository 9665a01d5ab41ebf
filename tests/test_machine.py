import platform
from pathlib import Path

import pytest
import torch

from pliant import machine


def test_the_processor_is_named_as_the_system_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = tmp_path / "cpuinfo"
    listing.write_text("processor\t: 0\nmodel name\t: A Processor: 2nd\nmodel name\t: Another\n")
    monkeypatch.setattr(machine, "_PROCESSORS", listing)
    assert machine.device_name(torch.device("cpu")) == "A Processor: 2nd"
    monkeypatch.setattr(machine, "_PROCESSORS", tmp_path / "absent")
    assert machine.processor() == platform.machine()
