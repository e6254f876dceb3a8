"""What the generated pages say of where figures come from, and how they put it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))  # scripts, not a package

from noisy_labels import PAPER_NOISE, Job, agreement, score, tables
from noisy_page import failed_text
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


def test_a_method_that_gives_no_numbers_has_failed_and_has_no_mean() -> None:
    wrong = torch.arange(20) < 2
    well, broken = torch.arange(20).double(), torch.full((20,), torch.nan).double()
    assert score(broken, wrong, 1.0) == {"failed": "20 of 20 values are not numbers"}
    assert agreement(broken, well) == {} == agreement(torch.ones(20).double(), well)
    assert agreement(well, well)["spearman"] == pytest.approx(1)
    job = Job(PAPER_NOISE, 0, "svhn", "noisy labels", "published")
    rated = score(well, wrong, 1.0)
    found = [{"a": rated | {"spearman": 1.0}, "b": rated}, {"a": rated, "b": score(broken, wrong, 1.0)}]
    rows = tables({job._replace(seed=seed): {"found": each} for seed, each in enumerate(found)})
    here = rows["svhn"][PAPER_NOISE]["noisy labels"]
    assert here["methods"].keys() == {"a"}
    assert "spearman" not in here["methods"]["a"]
    assert here["failed"] == {"b": {"1": "20 of 20 values are not numbers"}}
    assert "b (noisy labels) on SVHN (next, 10 %), seed 1: 20 of 20 values are not numbers" in failed_text(rows)
