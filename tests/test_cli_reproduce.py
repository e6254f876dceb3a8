from __future__ import annotations

import json
import shutil
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fwshapley import files
from fwshapley.cli import app, reproduce, requirements
from fwshapley.cli.child import run_to_end
from fwshapley.cli.comparison import compare_figures, compare_seeds, difference

CHECKOUT = Path(__file__).parents[1]
SCRIPT = '''"""Counts sheep.

More of it.
"""

import sys

OPTIONS = ("--smoke", "--out")
print("asked for", sys.argv[1:], flush=True)
sys.exit(int("--fail" in sys.argv) * 7)
'''
WAITING = '''"""Waits for Ctrl-C, which only its parent gets."""

import os
import signal
import sys
import time
from pathlib import Path

OPTIONS = ("--smoke", "--out")
try:
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)
except KeyboardInterrupt:
    Path("../stopped").touch()
    sys.exit(130)
'''
DOCUMENT = {"date": "2026-11-15T10:00:00", "wall_time_s": 1234.5, "seeds": [0, 1, 2]}
CPU = {"gpu": None, "cores": 2, "processor": "AMD EPYC"}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder that looks like the repository, with one benchmark and one helper."""
    (tmp_path / "src" / "fwshapley").mkdir(parents=True)
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    (tmp_path / "benchmarks" / "sheep.py").write_text(SCRIPT)
    (tmp_path / "benchmarks" / "goats.py").write_text(SCRIPT.replace("sheep", "goats"))
    (tmp_path / "benchmarks" / "helper.py").write_text('"""Helps."""\n')
    recorded = DOCUMENT | {"benchmark": "sheep", "machine": CPU, "results": {"sheep": 100, "wolves": [1, 2]}}
    (tmp_path / "benchmarks" / "results" / "sheep.json").write_text(json.dumps(recorded))
    gpu = recorded | {"benchmark": "sheep_gpu", "machine": CPU | {"gpu": "NVIDIA H200"}}
    (tmp_path / "benchmarks" / "results" / "sheep_notes.json").write_text('{"of": "no benchmark"}')
    (tmp_path / "benchmarks" / "results" / "sheep_gpu.json").write_text(json.dumps(gpu))
    monkeypatch.chdir(tmp_path / "benchmarks")
    return tmp_path


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["reproduce", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.usefixtures("checkout")
def test_list_says_what_there_is_and_what_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = run("--list")
    assert code == 0
    assert "Counts sheep." in out
    assert "2026-11-15, 1,234 s on 2 cores of AMD EPYC" in " ".join(out.split())
    assert "2026-11-15, 1,234 s on NVIDIA H200" in " ".join(out.split())
    assert "not recorded" in next(line for line in out.splitlines() if "goats" in line)
    assert "helper" not in out


@pytest.mark.parametrize(
    "machines",
    [
        {"one part": ["NVIDIA H200; torch 2"], "another": ["NVIDIA H200; torch 3", "8 cores of Z80; torch 3"]},
        ["NVIDIA H200", "8 cores of Z80; torch 3"],
    ],
)
def test_list_names_machines_that_measured_not_the_one_that_joined(machines: object) -> None:
    document = DOCUMENT | {"machine": CPU, "results": {"machines": machines}}
    assert reproduce.measured_on(document) == ["NVIDIA H200", "8 cores of Z80"]


def test_list_says_how_long_joined_runs_trained_where_their_last_call_was_shorter() -> None:
    runs = {"2 minutes": {"seconds": 120.0}, "30 minutes": {"seconds": 1800.0}}
    assert reproduce.time_spent(DOCUMENT | {"results": {"runs": runs}}) == "1,920 s of training in 2 runs"
    del runs["30 minutes"]
    assert reproduce.time_spent(DOCUMENT | {"results": {"runs": runs}}) == "1,234 s"
    assert reproduce.time_spent(DOCUMENT | {"results": {"runs": {"digits": 3}}}) == "1,234 s"


def test_every_script_of_the_repository_is_listed() -> None:
    scripts = reproduce.find_scripts(CHECKOUT / "benchmarks")
    assert {"agreement", "core", "explain_speed", "lemma", "valuation_speed"} <= scripts.keys()
    assert not {"publish", "record", "resnet"} & scripts.keys()
    assert all(scripts.values())
    assert reproduce.OWN_CHECKOUT == CHECKOUT


def test_a_script_runs_with_its_options_and_its_exit_status_is_handed_on(
    checkout: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("sheep", "--seeds", "0", "1", "--device", "cpu", "--help")[0] == 0
    assert "asked for ['--seeds', '0', '1', '--device', 'cpu', '--help']" in capfd.readouterr().out
    assert not (checkout / "build").exists()
    assert run("sheep", "--", "--fail")[0] == 7
    assert "asked for ['--fail', " in capfd.readouterr().out


def test_a_run_does_not_replace_what_was_recorded(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    usual, smoke = (str(checkout / "build" / name) for name in ("reproduced", "smoke"))
    code, _, err = run("sheep")
    assert code == 0
    assert f"asked for ['--out', '{usual}', '--figures', '{usual}']" in capfd.readouterr().out
    assert f"results are in {usual}, figures in {usual}" in err
    assert run("sheep", "--smoke")[0] == 0
    assert f"asked for ['--smoke', '--out', '{smoke}', '--figures', '{smoke}']" in capfd.readouterr().out
    assert run("sheep", "--smoke", "--out=mine")[0] == 0
    assert f"asked for ['--smoke', '--out=mine', '--figures', '{smoke}']" in capfd.readouterr().out


def test_a_run_without_the_gpu_of_its_record_says_that_it_takes_long(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "recorded in 1,234 s on NVIDIA H200; there is no GPU here, so this may take many times as long\n"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "no GPU here" not in run("sheep")[2]  # it was recorded without one, too
    (checkout / "benchmarks" / "results" / "sheep.json").unlink()
    assert told in run("sheep")[2]
    for options in (["--smoke"], ["--draw"], ["--help"], ["--join"]):
        assert "no GPU here" not in run("sheep", *options)[2]
    assert "no GPU here" not in run("goats")[2]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert "no GPU here" not in run("sheep")[2]


@pytest.mark.parametrize("option", ["--out", "--figures"])
def test_folders_that_take_no_files_are_refused_before_anything_runs(
    option: str, checkout: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (checkout / "taken").write_text("a file")
    code, _, err = run("sheep", option, str(checkout / "taken"))
    assert code == 2
    assert f"taken is a file: choose another folder for {option}\n" in err

    def write(dir: Path) -> AbstractContextManager[None]:  # noqa: A002 - as TemporaryFile has it
        if dir.name == "full":
            raise OSError(28, "No space left on device", dir)
        return nullcontext()

    monkeypatch.setattr(files, "TemporaryFile", write)
    code, _, err = run("sheep", option, str(checkout / "full"))
    assert code == 2
    assert f"full cannot be written to (No space left on device): choose another folder for {option}\n" in err
    assert "asked for" not in capfd.readouterr().out


@pytest.mark.parametrize(
    ("option", "options", "told"),
    [
        ("", [], "stopped: the same command starts anew\n"),
        (
            '"--work", type=Path, help="folder that sheep.py worked in"',
            ["--work", "x"],
            "the same command starts anew\n",
        ),
        ('"--work", type=Path, default=Path("x"), help="folder for pieces, kept"', [], "goes on from finished pieces"),
        ('"--work", type=Path, help="folder for pieces, kept"', [], "one with --work FOLDER would go on"),
        ('"--work", type=Path, help="folder for pieces, kept"', ["--work=x"], "goes on from finished pieces"),
    ],
)
def test_an_interrupted_script_is_waited_for_and_ours_says_whether_it_goes_on(
    option: str, options: list[str], told: str, checkout: Path
) -> None:
    (checkout / "benchmarks" / "sheep.py").write_text(f"{WAITING}# {option}\n")
    code, _, err = run("sheep", *options)
    assert code == 130
    assert (checkout / "stopped").exists()
    assert told in err


def test_a_script_that_ends_well_in_spite_of_an_interrupt_was_not_stopped(checkout: Path) -> None:
    (checkout / "benchmarks" / "sheep.py").write_text(WAITING.replace("sys.exit(130)", "sys.exit(0)"))
    code, _, err = run("sheep")
    assert code == 0
    assert "stopped:" not in err


COUNTING_SIGNALS = """import os, signal, sys, time
got = []
signal.signal(signal.{name}, lambda number, _: got.append(number))
os.kill(os.getppid(), signal.{name})
time.sleep(0.5)  # for a second one
sys.exit(len(got))
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"])
def test_signals_are_passed_on_once(name: str) -> None:
    ended = run_to_end([sys.executable, "-c", COUNTING_SIGNALS.format(name=name)])
    assert ended == (1, name == "SIGINT")


def test_scripts_of_the_repository_say_whether_they_keep_pieces() -> None:
    scripts = [CHECKOUT / "benchmarks" / f"{name}.py" for name in reproduce.find_scripts(CHECKOUT / "benchmarks")]
    found = {script.stem: reproduce.KEEPS.search(script.read_text(encoding="utf-8")) for script in scripts}
    kept = {name: bool(match["usual"]) for name, match in found.items() if match}
    always = dict.fromkeys(("inclusion", "learned_valuation", "noisy_labels", "table2"), True)
    assert kept == always | {"agreement": False}


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["shep"], "there is no benchmark 'shep' (did you mean 'sheep'?); there are goats, sheep"),
        (["../sheep"], "there is no benchmark '../sheep'"),
        (["helper"], "there is no benchmark 'helper'; there are goats, sheep"),
        ([], "which benchmark? One of goats, sheep; --list says what they show"),
    ],
)
def test_unknown_names_are_explained(arguments: list[str], complaint: str) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert complaint in err


def test_without_a_checkout_it_says_what_to_get(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "OWN_CHECKOUT", checkout / "src")
    shutil.rmtree(checkout / "src" / "fwshapley")
    code, _, err = run("--list")
    assert code == 2
    assert "benchmarks are not part of the installed package: get the repository" in err


def test_a_script_that_is_killed_is_told_apart(checkout: Path) -> None:
    (checkout / "benchmarks" / "sheep.py").write_text('import os\nos.kill(os.getpid(), 9)  # "--smoke"\n')
    assert run("sheep")[0] == 137


@pytest.mark.parametrize(
    ("script", "helper", "told"),
    [
        (
            "from shapiq.missing import x",
            "",
            "sheep needs shapiq, which is not installed: pip install 'fwshapley[peers]'",
        ),
        (
            "import shapiq, sklearn.svm",
            "",
            "sheep needs shapiq, scikit-learn, which are not installed: pip install 'f",
        ),
        (
            "import helper",
            "import captum\nimport sheep",
            "pip install 'fwshapley[baselines]' (in a checkout: pip install '.[b",
        ),
        ("import captum, torch, shapiq, wool", "", "pip install 'fwshapley[baselines,peers]' wool (in"),
        ("import wool", "", "sheep needs wool, which is not installed: pip install wool\n"),
    ],
)
def test_what_a_script_lacks_is_told_before_it_runs(
    script: str, helper: str, told: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = {"captum", "shapiq", "sklearn", "wool"}
    monkeypatch.setattr(requirements, "find_spec", lambda name: None if name in lacking else name)
    extras = {
        "baselines": ["captum", "scikit-learn"],
        "dev": [*lacking - {"wool"}],
        "peers": ["scikit-learn", "shapiq"],
    }
    needed = [f"{name}>=1.0; extra == '{extra}'" for extra, names in extras.items() for name in names]
    monkeypatch.setattr(requirements, "requires", lambda _: ["torch>=2", *needed])
    (checkout / "benchmarks" / "sheep.py").write_text(f"{script}\n{SCRIPT}")
    (checkout / "benchmarks" / "helper.py").write_text(helper)
    for options in ([], ["--help"]):
        code, _, err = run("sheep", *options)
        assert code == 2
        assert told in err


def test_scripts_of_the_repository_import_what_is_known() -> None:
    for name in reproduce.find_scripts(CHECKOUT / "benchmarks"):
        requirements.check_installed(CHECKOUT / "benchmarks" / f"{name}.py", [CHECKOUT / "examples"])


COUNTING = """
from pathlib import Path
out = Path(sys.argv[sys.argv.index("--out") + 1])
found = '{"benchmark": "sheep", "seeds": [0, 1, 2], "results": {"sheep": 100.5, "wolves": [1, 1]}}'
(out / "sheep.json").write_text(found)
"""


def test_a_run_says_how_its_figures_agree_with_the_recorded_ones(checkout: Path) -> None:
    script = checkout / "benchmarks" / "sheep.py"
    _, out, _ = run("sheep")
    assert "recorded figures" not in out
    counting = SCRIPT.replace("sys.exit", f"{COUNTING}\nsys.exit")
    script.write_text(counting.replace("[0, 1, 2]", "[1]"))
    assert "sheep (seed 1; recorded with 0 to 2): 3 of 3 recorded figures" in run("sheep")[1]
    script.write_text(counting)
    told = "sheep: 3 of 3 recorded figures were measured again: 2 within 1 %; "
    farthest = "the largest difference, relative to the larger of two, is 50 %: 1 at wolves.2 of 2, recorded 2\n"
    for folder in ([], ["--out", str(checkout / "benchmarks" / "results")]):  # the latter replaces the record
        code, out, _ = run("sheep", *folder)
        assert code == 0
        assert f"{told}{farthest}" in out
    assert "recorded figures" not in run("sheep", "--smoke")[1]


@pytest.mark.parametrize(
    ("found", "recorded", "told"),
    [
        ([0, 1], range(10), " (seeds 0 and 1; recorded with 0 to 9)"),
        ([7], [0], " (seed 7; recorded with 0)"),
        ([5, 0, 2], [2, 1, 0], " (seeds 0, 2 and 5; recorded with 0 to 2)"),
        ([2, 1, 0], [0, 1, 2], ""),
    ],
)
def test_seeds_that_differ_are_told(found: list[int], recorded: list[int], told: str) -> None:
    assert compare_seeds(found, recorded) == told


def test_figures_compare_at_the_same_place_only() -> None:
    recorded = {"a": {"b": [1.0, 2.0], "yes": True, "name": "x"}, "c": 0, "d": None, "e": float("nan")}
    assert compare_figures(recorded, recorded) == (
        "4 of 4 recorded figures were measured again: 4 within 1 %, no difference at all"
    )
    assert compare_figures({"a": {"b": [1.0, 2.0, 3.0]}, "f": 1}, recorded) == (
        "none of the 4 recorded figures was measured again"
    )
    assert compare_figures({"c": -1e-3}, recorded).endswith("is 100 %: -0.001 at c, recorded 0")


def test_times_are_figures_but_not_what_all_of_it_took() -> None:
    recorded = {"seconds": 60, "rows": [{"seed": 0, "seconds": 2.0}]}
    assert compare_figures({"seconds": 90, "rows": [{"seed": 1, "seconds": 3.0}]}, recorded) == (
        "1 of 1 recorded figures were measured again: 0 within 1 %; "
        "the largest difference, relative to the larger of two, is 33.3 %: 3 at rows.1 of 1.seconds, recorded 2"
    )


@pytest.mark.parametrize(
    ("one", "other", "expected"), [(0, 0, 0), (99, 100, 0.01), (1, -1, 2), (0, 5, 1), (float("nan"), 1, 2)]
)
def test_differences_are_relative_to_the_larger(one: float, other: float, expected: float) -> None:
    assert difference(one, other) == difference(other, one) == pytest.approx(expected)
