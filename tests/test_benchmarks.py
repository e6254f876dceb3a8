"""Every benchmark has a --smoke that runs and records what it should."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fwshapley as fw

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
SCRIPTS = sorted(path for path in BENCHMARKS.glob("*.py") if '"--smoke"' in path.read_text(encoding="utf-8"))
"""Not those that only help the others."""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_smoke_run_records_results_and_how_they_came_about(script: Path, tmp_path: Path) -> None:
    subprocess.run(  # noqa: S603 - our own script
        [sys.executable, script, "--smoke", "--seeds", "7", "--out", tmp_path, "--figures", tmp_path],
        check=True,
        capture_output=True,
    )
    document = json.loads((tmp_path / f"{script.stem}.json").read_text(encoding="utf-8"))
    assert {"command", "date", "machine", "results", "seeds", "versions", "wall_time_s"} <= document.keys()
    assert "--smoke" in document["command"]
    assert document["results"]
    assert document["seeds"] == [7]
    assert any(path.suffix == ".png" for path in tmp_path.iterdir())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_recorded_results_are_of_a_full_run(script: Path) -> None:
    path = BENCHMARKS / "results" / f"{script.stem}.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    assert "--smoke" not in document["command"]


def test_pages_say_what_was_recorded() -> None:
    command = [sys.executable, str(BENCHMARKS / "publish.py"), "--check"]
    checked = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own script
    assert checked.returncode == 0, checked.stderr


def test_page_of_noisy_labels_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from noisy_page import missing_text  # noqa: PLC0415 - a script, on the path only here

    assert missing_text([]) == ""
    job = {"noise": "next, 10 %", "dataset": "svhn", "kind": "cross-fitted", "part": "exact"}
    assert missing_text([job | {"seed": 1}, job | {"seed": 2}]).endswith("are SVHN (next, 10 %), exact")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("table2 --data {}/no.npz", "argument --data: there is no file or folder {}/no.npz"),
        ("table1 --data {}/no.npz", "argument --data: there is no file or folder {}/no.npz"),
        ("noisy_labels --data {}/no.npz", "argument --data: there is no file or folder {}/no.npz"),
        ("learned_valuation --data {}/no.npz", "argument --data: there is no file or folder {}/no.npz"),
        ("label_noise --data {}", "is none of cifar10, fashion_mnist, svhn by its name"),
        ("table2 --work {}", "--data is needed, or --smoke"),
        ("inclusion --smoke --data {}", "--smoke takes no --data: it runs on what is bundled or made up"),
        ("explain_speed --data {} --work {} --seeds 7", "--seeds is not for --data: a student has its teacher's"),
        ("noisy_labels --parts exact --work {}", "--data is needed for the parts exact, or --smoke"),
        ("learned_valuation --parts large --work {}", "--data is needed for the parts large, or --smoke"),
    ],
)
def test_data_that_are_missing_are_named_at_once(
    arguments: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    script, *rest = arguments.replace("{}", str(tmp_path)).split()
    monkeypatch.setattr(sys, "argv", [script, *rest])
    with pytest.raises(SystemExit):
        import_module(script).parse()
    assert complaint.replace("{}", str(tmp_path)) in capsys.readouterr().err


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_help_says_what_seeds_are_of_and_lists_choices_apart_from_the_usage(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr(sys, "argv", [script.name, "--help"])
    module = import_module(script.stem)
    with pytest.raises(SystemExit) as ended:
        getattr(module, "parse", module.main)()
    assert ended.value.code == 0
    usage, _, told = " ".join(capsys.readouterr().out.split()).partition("options:")
    assert "seed numbers, of " in told or "one seed number, of " in told
    assert "{" not in usage.replace("{cifar10,svhn}", "").replace("{cpu,cuda}", "")
    for choice in getattr(module, "PARTS", ()):
        assert choice in told


DEVICES = [script for script in SCRIPTS if '"--device"' in script.read_text(encoding="utf-8")]


@pytest.mark.parametrize("script", DEVICES, ids=lambda script: script.stem)
def test_a_gpu_that_is_not_there_is_refused_at_once(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unavailable(*_: object, device: str) -> None:
        raise AssertionError(f"Torch not compiled with {device.upper()} enabled")

    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr(torch, "empty", unavailable)
    monkeypatch.setattr(sys, "argv", [script.name, "--smoke", "--device", "cuda"])
    with pytest.raises(SystemExit):
        import_module(script.stem).parse()
    assert "argument --device: torch has no 'cuda' here: Torch not compiled with CUDA" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["random", "smooth"])
def test_games_of_several_seeds_are_those_of_each(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    draw_games = import_module("lemma").draw_games
    coalitions = torch.rand(16, 5, generator=torch.Generator().manual_seed(0)) < 1 / 2
    pooled = draw_games(kind, 5, 3, [0, 7])
    each = [draw_games(kind, 5, 3, [seed])(coalitions) for seed in (0, 7)]
    assert pooled.n_players == 5
    assert torch.equal(pooled(coalitions), torch.cat(each, 1))
    assert not torch.equal(*each)


def test_a_student_and_the_times_have_clocks_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    script = import_module("explain_speed")

    def distilled(*_: object) -> tuple[Any, ...]:
        time.sleep(0.3)
        return None, None, None, None, {"pearson": 1.0}

    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda _: None)  # of all tests to come
    monkeypatch.setattr(script, "distilled", distilled)
    monkeypatch.setattr(script, "time_all", lambda *_, **__: [])
    place = str(tmp_path)
    options = ["--data", place, "--work", place, "--explainer", "5 minutes, seed 7", "--device", "cpu", "--out", place]
    monkeypatch.setattr(sys, "argv", ["x", *options, "--no-figure"])
    script.main()
    student, times = (
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("explain_speed_student", "explain_speed")
    )
    assert student["wall_time_s"] >= 0.3
    assert times["wall_time_s"] < 0.3
    assert student["seeds"] == times["seeds"] == [7]


def test_valuations_are_timed_on_a_gpu_after_a_warm_up_and_leave_nothing_to_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    script = import_module("valuation_speed")
    for name in ("reset_peak_memory_stats", "synchronize", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda: 0)
    asked = []

    value_neighbours = fw.value_neighbours

    def value(*data: Any, weights: fw.Semivalue, device: str, **options: Any) -> fw.Valuation:  # noqa: ANN401 - arrays
        asked.append(str(weights))
        assert device == "cuda"
        return value_neighbours(*data, weights=weights, device="cpu", **options)

    monkeypatch.setattr(fw, "value_neighbours", value)
    found = script.on_gpu(argparse.Namespace(smoke=True, seeds=[7], device="cuda"))
    assert asked == ["Shapley"] * 4 + ["Beta(4, 1)"]
    assert [len(rows) for rows in found.values()] == [4, 1]
    assert found["svhn"][0]["n"] == 732
    monkeypatch.setattr(torch, "empty", lambda *_, device: device)  # as if there were one
    monkeypatch.setattr(sys, "argv", ["x", "--draw", "--device", "cuda", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"nothing to draw of valuation_speed_gpu\.json"):
        script.main()


def test_a_gpu_that_was_not_used_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    record, pieces = import_module("record"), import_module("pieces")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: f"NVIDIA H200, {device}")
    for device, gpu in (("cpu", None), ("cuda", "NVIDIA H200, cuda"), (None, "NVIDIA H200, None")):
        path = record.record("sheep", {}, out=tmp_path, seeds=[0], started=0.0, device=device)
        assert json.loads(path.read_text())["machine"]["gpu"] == gpu
    for device, told in (("cpu", "cores of"), ("cuda:1", "NVIDIA H200, cuda:1; ")):
        pieces.keep_piece(tmp_path / "piece.json", {}, device)
        assert told in pieces.origin(pieces.read_piece(tmp_path / "piece.json"))


def test_data_are_read_from_files_and_folders_or_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from data_option import read_data  # noqa: PLC0415 - a script, on the path only here

    folder = tmp_path / "fashion_mnist"
    folder.mkdir()
    x, y = np.zeros((3, 28, 28), np.uint8), np.arange(3)
    for path in (folder / "fashion_mnist.npz", tmp_path / "mine.npz"):
        np.savez(path, x_train=x, y_train=y)
    for path in (folder, tmp_path, tmp_path / "mine.npz"):
        assert len(read_data("fashion_mnist", path).labels) == 3
    with pytest.raises(SystemExit, match=r"mine\.npz: there are 3 images of fashion_mnist to train, and 4 are needed"):
        read_data("fashion_mnist", tmp_path / "mine.npz", least=4)
    with pytest.raises(SystemExit, match=r"--data \S+mine\.npz: \S+ is not CIFAR-10: its images are"):
        read_data("cifar10", tmp_path / "mine.npz")
    (tmp_path / "mine.npz").write_bytes(b"PK\3\4 and no more")
    with pytest.raises(SystemExit, match=r"mine\.npz is damaged or cut off"):
        read_data("fashion_mnist", tmp_path / "mine.npz")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("agreement --data {}", "there are 100 images of cifar10 to train, and 1,536 are needed"),
        ("inclusion --data {} --datasets cifar10", "there are 100 images of cifar10 to train, and 1,536 are needed"),
        ("label_noise --data {}", "there are 100 images of cifar10 to train, and 10,000 are needed"),
        ("noisy_labels --data {} --parts exact", "there are 100 images of cifar10 to train, and 20,000 are needed"),
    ],
)
def test_too_few_images_are_told_in_a_line(
    arguments: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda _: None)  # of all tests to come
    x, y = np.zeros((100, 32, 32, 3), np.uint8), np.arange(100) % 10
    np.savez(tmp_path / "cifar10.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    script, *rest = arguments.format(tmp_path / "cifar10.npz").split()
    monkeypatch.setattr(sys, "argv", [script, *rest, "--out", str(tmp_path), "--figures", str(tmp_path)])
    with pytest.raises(SystemExit, match=complaint):
        import_module(script).main()


@pytest.mark.parametrize("script", [*SCRIPTS, BENCHMARKS / "publish.py"], ids=lambda script: script.stem)
def test_every_script_ends_quietly_when_it_is_interrupted(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert script.read_text(encoding="utf-8").endswith('if __name__ == "__main__":\n    run_script(main)\n')
    monkeypatch.syspath_prepend(str(BENCHMARKS))

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        import_module("script").run_script(interrupted)
    assert ended.value.code == 130
