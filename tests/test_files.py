from __future__ import annotations

from pathlib import Path

import pytest

from fwshapley.files import written_whole


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
