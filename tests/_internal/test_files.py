from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fwshapley._internal.files import LOCK, check_writable_file, locked, written_whole
from fwshapley._internal.safetensors_file import save_bundle


def test_file_appears_whole_in_a_new_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    with written_whole(path) as temporary:
        temporary.write_text("all of it")
        assert not path.exists()
    assert path.read_text() == "all of it"
    assert list(path.parent.iterdir()) == [path]


def test_failure_keeps_the_old_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail_half_way() -> None:
        with written_whole(path) as temporary:
            temporary.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail_half_way()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_others_may_read_a_file_as_they_may_any_new_one(tmp_path: Path) -> None:
    """Safetensors keeps what it writes to its owner, but a service may run as somebody else."""
    path = tmp_path / "bundle.safetensors"
    usual = tmp_path / "usual"
    usual.touch()
    save_bundle(path, "test", {}, {"x": torch.zeros(2)})
    assert path.stat().st_mode == usual.stat().st_mode


def test_threads_that_save_to_one_file_at_once_do_not_collide(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    with written_whole(path) as one, written_whole(path) as other:
        assert one != other
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_kept_to_one_process_at_a_time(tmp_path: Path) -> None:
    """The lock is of the open file, so that a second one is refused in the same process as well."""
    folder = tmp_path / "new" / "out"
    with locked(folder):
        for _ in range(2):
            with (
                pytest.raises(BlockingIOError, match=rf"process {os.getpid()} is already writing to .*out.*--out"),
                locked(folder),
            ):
                pass
        (folder / "result").touch()
    assert [path.name for path in folder.iterdir()] == ["result"]
    with locked(folder):
        pass


def test_a_folder_that_nothing_was_left_in_is_removed_again(tmp_path: Path) -> None:
    with locked(tmp_path / "new" / "out"):
        assert (tmp_path / "new" / "out").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_process_that_was_killed_is_dropped(tmp_path: Path) -> None:
    script = (
        "import os, sys, signal; from pathlib import Path; from fwshapley._internal.files import locked\n"
        "with locked(Path(sys.argv[1])):\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, capture_output=True)  # noqa: S603 - our own script
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (tmp_path / LOCK).exists()
    with locked(tmp_path):
        assert (tmp_path / LOCK).read_text() == str(os.getpid())


def test_a_file_system_without_locks_is_used_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("fwshapley._internal.files.fcntl.flock", refuse)
    with locked(tmp_path), locked(tmp_path):
        pass


def test_a_checkpoint_that_could_not_be_saved_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(NotADirectoryError, match=r"file is a file.*checkpoints="):
        check_writable_file(tmp_path / "file" / "run", "checkpoints=...")
    with pytest.raises(IsADirectoryError, match=r"folder is a folder.*checkpoint="):
        check_writable_file(tmp_path / "folder")
    check_writable_file(None)
    check_writable_file(tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()
