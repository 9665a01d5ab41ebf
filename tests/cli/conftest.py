"""The command line in this process: it runs as `pliant` would, and its status and output come back."""

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli.specimens import image_model, images, sentences, text_model, tree
from transformers.utils import logging

from pliant.cli import main


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str


Run = Callable[..., Result]
Refused = Callable[..., str]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keeps caches out of the user's home, and out of the folders that a test compares."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder / "pliant" / "evaluation"


@pytest.fixture
def pliant(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs `pliant` with these arguments; all that reaches the process's own output counts."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    verbosity = logging.get_verbosity()
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["pliant", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return Result(int(ended.value.code or 0), out, err)

    yield run
    logging.set_verbosity(verbosity)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def refused(pliant: Run, tmp_path: Path) -> Refused:
    """Runs a command that must fail with one message and leave everything as it was; returns the message."""

    def run(*arguments: object) -> str:
        before = tree(tmp_path)
        result = pliant(*arguments)
        assert (result.status, result.out) == (2, ""), result
        assert result.err.startswith("error: "), result.err
        assert result.err.count("\n") == 1 and "Traceback" not in result.err, result.err
        assert tree(tmp_path) == before
        return result.err

    return run


@pytest.fixture(scope="session")
def _text_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_model(tmp_path_factory.mktemp("text") / "model")


@pytest.fixture(scope="session")
def _image_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image_model(tmp_path_factory.mktemp("image") / "model")


@pytest.fixture
def model(_text_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(_text_model, tmp_path / "model"))


@pytest.fixture
def vision_model(_image_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(_image_model, tmp_path / "vision model"))


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(sentences(32)), encoding="utf-8")
    return file


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return images(tmp_path / "pictures")


@pytest.fixture
def elastic(pliant: Run, model: Path, texts: Path, tmp_path: Path) -> Path:
    directory = tmp_path / "elastic"
    ranked = pliant("rank", model, "--data", texts, "--out", directory, "--steps", 2, "--batch-size", 8)
    assert ranked.status == 0, ranked.err
    return directory
