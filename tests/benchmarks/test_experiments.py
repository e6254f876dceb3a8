"""Every experiment has a --smoke that runs and records what it should, and options that explain themselves."""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.harness import pieces, record
from benchmarks.harness.options import read_data
from benchmarks.harness.provenance import EXPERIMENTS, experiments, read_records

import fwshapley as fw
from benchmarks import run

NAMES = sorted(experiments())


def load(name: str) -> ModuleType:
    return import_module(f"benchmarks.experiments.{name}")


@pytest.fixture(autouse=True)
def unchanged_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep settings of torch, which the tests to come share, as they are."""
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda _: None)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")  # shapes are checked elsewhere
@pytest.mark.filterwarnings("ignore")  # networks that have learned nothing cause many
@pytest.mark.parametrize("name", NAMES)
def test_smoke_run_records_results_and_how_they_came_about(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [name, "--smoke", "--seeds", "7", "--out", str(tmp_path), "--figures", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["benchmarks/run.py", *options])
    run.main(options)
    document = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert {"command", "date", "machine", "results", "seeds", "versions", "wall_time_s"} <= document.keys()
    assert document["command"].startswith(f"python benchmarks/run.py {name} --smoke --seeds 7")
    assert document["results"]
    assert document["seeds"] == [7]
    assert any(path.suffix == ".png" for path in tmp_path.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_recorded_results_are_of_a_full_run(name: str) -> None:
    assert all("--smoke" not in document["command"] for document in read_records(name).values())


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("valuation_time_by_method --data {}/no.npz", "argument --data: there is no file or folder {}/no.npz"),
        ("wrong_labels_resnet --data {}/no.npz", "argument --data: there is no file or folder {}/no.npz"),
        ("wrong_labels_pixels --data {}", "must start with one of cifar10, fashion_mnist, svhn"),
        ("valuation_time_by_method --work {}", "--data is needed, or --smoke"),
        ("inclusion_curves --smoke --data {}", "--smoke takes no --data: it runs on bundled or generated data"),
        ("explanation_vs_forward_pass --data {} --work {} --seeds 7", "--seeds is not for --data"),
        ("wrong_labels_resnet --parts exact --work {}", "--data is needed for the parts exact, or --smoke"),
        ("learned_data_values --parts large --work {}", "--data is needed for the parts large, or --smoke"),
    ],
)
def test_missing_data_are_named_at_once(
    words: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *options = words.replace("{}", str(tmp_path)).split()
    with pytest.raises(SystemExit):
        load(name).parse([*options, "--out", str(tmp_path), "--figures", str(tmp_path)])
    assert complaint.replace("{}", str(tmp_path)) in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_help_explains_seeds_and_lists_choices_apart_from_the_usage(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = load(name)
    with pytest.raises(SystemExit) as ended:
        module.parse(["--help"])
    assert ended.value.code == 0
    usage, _, explained = " ".join(capsys.readouterr().out.split()).partition("options:")
    assert "seed numbers, of " in explained or "one seed number, of " in explained
    assert "{" not in usage.replace("{cifar10,svhn}", "").replace("{cpu,cuda}", "")
    for choice in getattr(module, "PARTS", ()):
        assert choice in explained


DEVICES = [name for name in NAMES if "add_device(" in (EXPERIMENTS / f"{name}.py").read_text(encoding="utf-8")]


@pytest.mark.parametrize("name", DEVICES)
def test_a_gpu_that_is_not_there_is_refused_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unavailable(*_: object, device: str) -> None:
        raise AssertionError(f"Torch not compiled with {device.upper()} enabled")

    monkeypatch.setattr(torch, "empty", unavailable)
    with pytest.raises(SystemExit):
        load(name).parse(["--smoke", "--device", "cuda"])
    assert "argument --device: torch has no 'cuda' here: Torch not compiled with CUDA" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["random", "smooth"])
def test_games_of_several_seeds_are_those_of_each(kind: str) -> None:
    draw_games = load("paper_kernel").draw_games
    coalitions = torch.rand(16, 5, generator=torch.Generator().manual_seed(0)) < 1 / 2
    pooled = draw_games(kind, 5, 3, [0, 7])
    each = [draw_games(kind, 5, 3, [seed])(coalitions) for seed in (0, 7)]
    assert pooled.n_players == 5
    assert torch.equal(pooled(coalitions), torch.cat(each, 1))
    assert not torch.equal(*each)


def test_parts_that_were_kept_are_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load("learned_vs_trees")
    options = ["--smoke", "--out", str(tmp_path), "--figures", str(tmp_path)]
    arguments = script.parse(options)
    monkeypatch.setattr(script, "make_case", lambda *_: pytest.fail("a model was fitted"))
    for number, part in enumerate(("baselines", "learned in 20 s", "learned in 100 s", "default")):
        piece = {"agreement": {part: number}, "facts": {}, "settings": script.setting_of(arguments), "took": 10.0}
        pieces.keep_piece(tmp_path / f"10 columns, seed 7, {part}.json", piece, "cpu")
    found, seconds = script.run_once(10, 7, tmp_path, arguments)
    assert list(found["agreement"].values()) == [0, 1, 2, 3]
    assert seconds == 40
    with pytest.raises(SystemExit, match="was made with budgets"):
        script.run_once(10, 7, tmp_path, script.parse([*options, "--budgets", "5", "10"]))


def test_a_student_and_the_times_have_clocks_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load("explanation_vs_forward_pass")

    def distilled(*_: object) -> tuple[Any, ...]:
        clock[0] += 100
        return None, None, None, None, {"pearson": 1.0}

    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(script, "distilled", distilled)
    monkeypatch.setattr(script, "time_all", lambda *_, **__: [])
    place = str(tmp_path)
    options = ["--data", place, "--work", place, "--explainer", "5 minutes, seed 7", "--device", "cpu", "--out", place]
    script.main(script.parse([*options, "--no-figure", "--figures", place]))
    student, times = (
        json.loads((tmp_path / f"{name}.json").read_text())
        for name in ("explanation_vs_forward_pass_student", "explanation_vs_forward_pass")
    )
    assert student["wall_time_s"] == 100
    assert times["wall_time_s"] == 0
    assert student["seeds"] == times["seeds"] == [7]


def test_valuations_are_timed_on_a_gpu_after_a_warm_up_and_leave_nothing_to_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = load("knn_valuation_speed")
    for name in ("reset_peak_memory_stats", "synchronize", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda: 0)
    asked = []

    value_neighbors = fw.value_neighbors

    def value(*data: Any, weights: fw.Semivalue, device: str, **options: Any) -> fw.Valuation:  # noqa: ANN401 - arrays
        asked.append(str(weights))
        assert device == "cuda"
        return value_neighbors(*data, weights=weights, device="cpu", **options)

    monkeypatch.setattr(fw, "value_neighbors", value)
    found = script.on_gpu(argparse.Namespace(smoke=True, seeds=[7], device="cuda"))
    assert asked == ["Shapley"] * 4 + ["Beta(4, 1)"]
    assert [len(rows) for rows in found.values()] == [4, 1]
    assert found["svhn"][0]["n"] == 732
    monkeypatch.setattr(torch, "empty", lambda *_, device: device)  # as if there were one
    options = ["--draw", "--device", "cuda", "--out", str(tmp_path), "--figures", str(tmp_path)]
    with pytest.raises(SystemExit, match=r"nothing to draw of knn_valuation_speed_gpu\.json"):
        script.main(script.parse(options))


def test_a_gpu_that_was_not_used_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: f"NVIDIA H200, {device}")
    for device, gpu in (("cpu", None), ("cuda", "NVIDIA H200, cuda"), (None, "NVIDIA H200, None")):
        path = record.record("sheep", {}, out=tmp_path, seeds=[0], started=0.0, device=device)
        assert json.loads(path.read_text())["machine"]["gpu"] == gpu
    for device, told in (("cpu", "cores of"), ("cuda:1", "NVIDIA H200, cuda:1; ")):
        pieces.keep_piece(tmp_path / "piece.json", {}, device)
        assert told in pieces.origin(pieces.read_piece(tmp_path / "piece.json") or {})


def test_data_are_read_from_files_and_folders_or_refused_in_a_line(tmp_path: Path) -> None:
    folder = tmp_path / "fashion_mnist"
    folder.mkdir()
    x, y = np.zeros((3, 28, 28), np.uint8), np.arange(3)
    for path in (folder / "fashion_mnist.npz", tmp_path / "mine.npz"):
        np.savez(path, x_train=x, y_train=y)
    for path in (folder, tmp_path, tmp_path / "mine.npz"):
        assert len(read_data("fashion_mnist", path).labels) == 3
    with pytest.raises(SystemExit, match=r"mine\.npz: fashion_mnist has 3 train images there, but 4 are needed"):
        read_data("fashion_mnist", tmp_path / "mine.npz", least=4)
    with pytest.raises(SystemExit, match=r"--data \S+mine\.npz: \S+ is not CIFAR-10: its images are"):
        read_data("cifar10", tmp_path / "mine.npz")
    (tmp_path / "mine.npz").write_bytes(b"PK\3\4 and no more")
    with pytest.raises(SystemExit, match=r"mine\.npz is damaged or cut off"):
        read_data("fashion_mnist", tmp_path / "mine.npz")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("learned_vs_sampled --data {}", "cifar10 has 100 train images there, but 1,536 are needed"),
        ("inclusion_curves --data {} --datasets cifar10", "cifar10 has 100 train images there, but 1,536 are needed"),
        ("wrong_labels_pixels --data {}", "cifar10 has 100 train images there, but 10,000 are needed"),
        ("wrong_labels_resnet --data {} --parts exact", "cifar10 has 100 train images there, but 20,000 are needed"),
    ],
)
def test_too_few_images_are_told_in_a_line(
    arguments: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = np.zeros((100, 32, 32, 3), np.uint8), np.arange(100) % 10
    np.savez(tmp_path / "cifar10.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    script, *rest = arguments.format(tmp_path / "cifar10.npz").split()
    module = load(script)
    with pytest.raises(SystemExit, match=complaint):
        module.main(module.parse([*rest, "--out", str(tmp_path), "--figures", str(tmp_path)]))
