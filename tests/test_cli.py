from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import fwshapley as fw
from fwshapley.cli import app


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_version_is_the_package_version() -> None:
    assert run("--version") == (0, f"fwshapley {fw.__version__}\n", "")


def test_help_names_the_commands_and_a_first_step() -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert "weights" in out
    assert "fwshapley weights --alpha 16 --beta 1 --players 12" in out


def test_weights_shows_one_row_per_size() -> None:
    code, out, _ = run("weights", "--alpha", "16", "--beta", "1", "--players", "12")
    assert code == 0
    assert "Beta(16, 1), 12 players" in out
    assert "0.593" in out  # w(0) = 16/27
    assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.parametrize("players", ["1", "2", "1000000"])
def test_weights_of_few_and_of_very_many_players(players: str) -> None:
    code, out, _ = run("weights", "-n", players)
    assert code == 0
    assert "Shapley" in out
    assert len(out.splitlines()) < 40


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--alpha", "-1"], "alpha must be positive, got -1"),
        (["--beta", "nan"], "beta must be finite"),
        (["--players", "0"], "n must be at least 1"),
        (["--plot", "plot.nonsense"], "plot.nonsense must end in .png"),
        (["--plot", "plot"], "plot must end in .png"),
        (["--plot", "[red]plot"], "[red]plot must end in .png"),
    ],
)
def test_bad_options_are_explained_and_leave_nothing(
    arguments: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run("weights", *arguments)
    assert code == 2
    assert complaint in err
    assert not list(tmp_path.iterdir())


def test_weights_plot_is_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "weights.png"
    code, _, _ = run("weights", "--alpha", "4", "--plot", str(path))
    assert code == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert list(path.parent.iterdir()) == [path]
