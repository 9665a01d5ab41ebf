"""Real processes that are interrupted, terminated and killed: nothing half-written, nothing lost."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cli import killed
from cli.specimens import sentences, text_model, tree

from pliant.artefacts import load_elastic
from pliant.ranking import Ranking

Run = Callable[..., Any]

# Judged, and saved, after steps 40, 80 and 100.
STEPS = 100
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
SCENARIOS: list[tuple[str, signal.Signals, int]] = [
    ("step 0", signal.SIGKILL, -9),
    ("step 7", signal.SIGKILL, -9),
    ("step 7", signal.SIGINT, 130),
    ("file search.safetensors", signal.SIGKILL, -9),
    ("step 40", signal.SIGTERM, 143),
    ("step 73", signal.SIGKILL, -9),
    ("step 99", signal.SIGINT, 130),
    ("file pliant.safetensors", signal.SIGKILL, -9),
    ("file elastic", signal.SIGKILL, -9),
    ("file elastic", signal.SIGTERM, 143),
]
SAVED_STEPS = [0, 0, 0, 0, 40, 40, 80, 100, 100, 100]


def arguments(folder: Path) -> list[str]:
    shared = folder.parent
    options = ["--steps", str(STEPS), "--batch-size", "8", "--max-tokens", "6"]
    return [
        "rank",
        str(shared / "model"),
        "--data",
        str(shared / "texts.txt"),
        "--out",
        str(folder / "elastic"),
        *options,
    ]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interrupts")
    text_model(folder / "model")
    (folder / "texts.txt").write_text("\n".join(sentences(32)))
    return folder


@pytest.fixture(scope="module")
def statuses(scene: Path) -> list[int]:
    scenarios = []
    for index, (where, number, _) in enumerate(SCENARIOS):
        folder = scene / str(index)
        folder.mkdir()
        errors = str(scene / f"{index}.err")
        scenarios.append({"where": where, "signal": number, "arguments": arguments(folder), "errors": errors})
    command = [sys.executable, killed.__file__]
    ran = subprocess.run(command, input=json.dumps(scenarios), env=ONE_THREAD, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.fixture
def straight(pliant: Run, scene: Path) -> Ranking:
    """The ranking of a run that nothing interrupted."""
    folder = scene / "straight"
    if not folder.exists():
        assert pliant(*arguments(folder)).status == 0
    return load_elastic(folder / "elastic")[1]


@pytest.mark.parametrize("index", range(len(SCENARIOS)), ids=[f"{what} {number.name}" for what, number, _ in SCENARIOS])
def test_an_interrupted_ranking_goes_on(
    pliant: Run, scene: Path, statuses: list[int], straight: Ranking, index: int
) -> None:
    _, number, status = SCENARIOS[index]
    folder, saved = scene / str(index), SAVED_STEPS[index]
    assert statuses[index] == status
    assert not (folder / "elastic").exists()
    said = (scene / f"{index}.err").read_text()
    assert "Traceback" not in said
    if number == signal.SIGKILL:
        assert said == ""
    else:
        assert said.startswith("error: ") and "--resume" in said
        # Those that are asked to end leave nothing but the saved search.
        assert set(tree(folder)) == ({"elastic.partial", "elastic.partial/search.safetensors"} if saved else set())
    if saved:
        before = tree(folder)
        refused = pliant(*arguments(folder))
        assert refused.status == 2 and "--resume" in refused.err
        assert tree(folder) == before
    first: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        step = killed.Search._step
        patch.setattr(
            killed.Search, "_step", lambda self, *rest: (first.append(len(self.losses)), step(self, *rest))[1]
        )
        assert pliant(*arguments(folder), "--resume").status == 0
    assert first == list(range(saved, STEPS))
    ranking = load_elastic(folder / "elastic")[1]
    assert torch.equal(ranking.scores, straight.scores)
    assert all(torch.equal(one, other) for one, other in zip(ranking.rest, straight.rest, strict=True))
    assert ranking.provenance == straight.provenance
    assert not (folder / "elastic.partial").exists()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_from_outside(scene: Path, number: signal.Signals, status: int) -> None:
    folder = scene / number.name
    command = [sys.executable, "-c", "from pliant.cli import main; main()", *arguments(folder), "--steps", "1000000"]
    search = folder / "elastic.partial" / "search.safetensors"
    with subprocess.Popen(
        command, env=ONE_THREAD, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        # Only so that a process that hangs ends the test.
        deadline = time.monotonic() + 600
        while not search.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(number)
        out, err = process.communicate(timeout=600)
    assert (process.returncode, out) == (status, "")
    assert err.startswith("error: ") and err.count("\n") == 1 and "--resume" in err
    assert set(tree(folder)) == {"elastic.partial", "elastic.partial/search.safetensors"}
