from __future__ import annotations

import pytest

import fwshapley._internal.progress as module
from fwshapley._internal.progress import ProgressBar, announce


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


def test_where_there_is_no_terminal_long_work_prints_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(module, "FIRST_LINE_SECONDS", 10.0)
    monkeypatch.setattr("fwshapley._internal.progress.time.monotonic", lambda: clock[0])
    with ProgressBar("counting sheep", total=100) as bar:
        for _ in range(50):
            clock[0] += 1.5
            bar.advance(2, note="woolly")
    assert capsys.readouterr().err.splitlines() == [
        "counting sheep: 14% after 10 s, about 64 s left; woolly",
        "counting sheep: 56% after 42 s, about 33 s left; woolly",
        "counting sheep: 98% after 74 s, about 2 s left; woolly",
        "counting sheep: done in 75 s",
    ]


@pytest.mark.parametrize(("enabled", "seconds"), [(False, 100.0), (True, 1.0)])
def test_short_or_silenced_work_prints_no_lines(
    enabled: bool,  # noqa: FBT001 - a parameter of the test
    seconds: float,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = [0.0]
    monkeypatch.setattr(module, "FIRST_LINE_SECONDS", 10.0)
    monkeypatch.setattr("fwshapley._internal.progress.time.monotonic", lambda: clock[0])
    with ProgressBar("counting sheep", total=2, enabled=enabled) as bar:
        clock[0] += seconds
        bar.advance(2)
    assert not capsys.readouterr().err


def test_a_long_call_announces_its_cost(capsys: pytest.CaptureFixture[str]) -> None:
    announce("exact values", "16,777,216 game calls", seconds=300, memory=2**31)
    assert capsys.readouterr().err == "exact values: 16,777,216 game calls, about 5.0 min, about 2.0 GB of memory\n"
    announce("retraining", "9 fits")
    assert capsys.readouterr().err == "retraining: 9 fits\n"


@pytest.mark.parametrize(("seconds", "enabled"), [(1.0, True), (300.0, False)])
def test_short_or_silenced_calls_announce_nothing(
    seconds: float,
    enabled: bool,  # noqa: FBT001 - a parameter of the test
    capsys: pytest.CaptureFixture[str],
) -> None:
    announce("exact values", "8 game calls", seconds=seconds, enabled=enabled)
    assert not capsys.readouterr().err


def test_work_that_will_take_long_is_announced_after_its_first_second(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr("fwshapley._internal.progress.time.monotonic", lambda: clock[0])
    for seconds_per_step in (0.01, 3.0):
        with ProgressBar("counting sheep", total=100, unit="sheep") as bar:
            for _ in range(2):
                clock[0] += seconds_per_step
                bar.advance(1)
    assert capsys.readouterr().err.splitlines() == ["counting sheep: 100 sheep, about 5.0 min"]
