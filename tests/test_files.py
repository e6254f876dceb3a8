from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fwshapley.files import written_whole
from fwshapley.storage import save_bundle


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
