import hashlib
import os
import stat
from pathlib import Path

import pytest

from pliant.errors import InputError
from pliant.files import check_writable, digest, new_directory, refuse_existing, replacing


class Stopped(Exception):
    """The power went off."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "down" / "file"
    with replacing(target) as temporary:
        temporary.write_text("half")
        assert not target.exists()
        temporary.write_text("whole")
    assert target.read_text() == "whole"
    assert names(target.parent) == ["file"]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(Stopped), replacing(target) as temporary:
        temporary.write_text("new")
        raise Stopped
    assert target.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_files_can_be_read_by_whom_the_umask_lets(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "file") as temporary:
            temporary.write_text("text")
        with new_directory(tmp_path / "folder") as folder:
            # As safetensors does.
            (folder / "inside").touch(0o600)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "folder" / "inside").stat().st_mode) == 0o640


def test_a_file_where_none_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with (
        pytest.raises(InputError, match=r"Can't write .*below.*Choose a place"),
        replacing(tmp_path / "file" / "below"),
    ):
        pass
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="Can't write"), replacing(tmp_path / "folder") as temporary:
        temporary.write_text("text")
    assert names(tmp_path) == ["file", "folder"]


def test_a_directory_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "folder"
    with new_directory(target) as temporary:
        (temporary / "inside").mkdir()
        (temporary / "inside" / "file").write_text("text")
        assert not target.exists()
    assert (target / "inside" / "file").read_text() == "text"
    assert names(target.parent) == ["folder"]


def test_a_failed_directory_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Stopped), new_directory(tmp_path / "folder") as temporary:
        (temporary / "file").write_text("text")
        raise Stopped
    assert names(tmp_path) == []


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with new_directory(tmp_path / "folder") as temporary:
        (temporary / "file").write_text("text")
    assert names(tmp_path / "folder") == ["file"]


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("text")
    (tmp_path / "file").write_text("text")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "empty")
    before = names(tmp_path)
    for name in ("full", "file", "dangling", "linked"):
        with pytest.raises(InputError, match=f"{name} already exists"), new_directory(tmp_path / name):
            raise AssertionError("the block must not run")
    assert names(tmp_path) == before


def test_refuse_existing_lets_new_places_pass(tmp_path: Path) -> None:
    refuse_existing(tmp_path / "none")
    refuse_existing(tmp_path)


@pytest.mark.parametrize("content", [b"", b"text", bytes(3_000_000)])
def test_digest(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    assert digest(tmp_path / "file") == hashlib.sha256(content).hexdigest()


def test_check_writable_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    for name in ("file", "new", "deep/down/new"):
        check_writable(tmp_path / name)
    for name in ("file/below", "file/far/below", "", "n" * 300):
        with pytest.raises(InputError, match=r"Can't write .*Choose a place"):
            check_writable(tmp_path / name)
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "text"
