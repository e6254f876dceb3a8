from __future__ import annotations

import pytest

import fwshapley.progress as module
from fwshapley.progress import ProgressBar


def draw(monkeypatch: pytest.MonkeyPatch, *, enabled: bool, patience: float) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes stderr for a terminal
    monkeypatch.setattr(module, "PATIENCE_SECONDS", patience)
    with ProgressBar("counting sheep", total=10, enabled=enabled) as bar:
        for _ in range(10):
            bar.advance(1, note="woolly")


def test_long_work_shows_what_it_does(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    draw(monkeypatch, enabled=True, patience=-1)
    assert "counting sheep" in capsys.readouterr().err


@pytest.mark.parametrize(("enabled", "patience"), [(False, -1.0), (True, 60.0)])
def test_short_or_silenced_work_shows_nothing(
    enabled: bool,  # noqa: FBT001 - a parameter of the test
    patience: float,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    draw(monkeypatch, enabled=enabled, patience=patience)
    assert not capsys.readouterr().err
