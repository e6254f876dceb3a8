"""What the generated pages say of where figures come from, and how they put it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))  # scripts, not a package

from pieces import keep_piece, origin, origins, read_piece
from provenance import command_of

GPU = {"gpu": "NVIDIA H200", "cores": 16, "processor": "Xeon"}


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("--data carry/svhn_jpeg95.npz --out res", "--data svhn_jpeg95.npz --out res"),
        ("--data ../a/one.npz b/two.npz --work build/x", "--data one.npz two.npz --work build/x"),
        ("--runs '2 minutes, log odds' --seconds 0.5", "--runs '2 minutes, log odds' --seconds 0.5"),
    ],
)
def test_commands_name_files_without_their_folders(recorded: str, shown: str) -> None:
    command = "python benchmarks/agreement.py"
    assert command_of({"command": f"{command} {recorded}"}) == f"{command} {shown}"


def test_a_piece_knows_where_it_was_made(tmp_path: Path) -> None:
    path = tmp_path / "pieces" / "digits, 0.json"
    assert read_piece(path) is None
    keep_piece(path, {"found": 1})
    piece = read_piece(path)
    assert piece is not None
    assert {"found", "machine", "command", "date", "versions"} == piece.keys()
    assert "torch " in origin(piece)


def test_parts_name_all_machines_they_were_made_on_even_of_early_pieces() -> None:
    early, late = {"machine": GPU}, {"machine": GPU, "versions": {"torch": "2.11.0"}}
    found = origins([("digits", early), ("large", late), ("digits", early), ("digits", late)])
    assert found == {"digits": ["NVIDIA H200", "NVIDIA H200; torch 2.11.0"], "large": ["NVIDIA H200; torch 2.11.0"]}
