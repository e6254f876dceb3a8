"""`fwshapley reproduce`: run a benchmark of a checkout again, and see what was recorded when and where."""

from __future__ import annotations

import ast
import itertools
import json
import re
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from fwshapley.checks import closest
from fwshapley.cli.child import run_to_end
from fwshapley.cli.comparison import compare_figures, compare_seeds
from fwshapley.cli.console import console, errors, errors_explained
from fwshapley.cli.requirements import check_installed
from fwshapley.files import make_folder

SMOKE = "--smoke"
MEASURE_NOTHING = {"--help", "-h", "--draw"}
ONLY_JOIN = {"--join", "--add"}
PASSED_ON = {"allow_interspersed_args": False}
"""Setting of the command: what follows NAME is the script's."""

KEEPS = re.compile(r'"--work", type=Path(?P<usual>, default=.*?)?, help="[^"]*(keep|kept)')
"""Option of a script that keeps finished pieces; others take those of another script."""

CORES = re.compile(r"\d+ cores of ")
"""Start of the name of a machine without a GPU."""

OWN_CHECKOUT = Path(__file__).parents[3]
"""Where the repository is if the package is installed from it in place; else a folder of Python's."""

KILLED = 128
"""Exit status of a shell for a program ended by signal 0."""


def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Benchmark, such as lemma.")] = None,
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="OPTIONS", help="Of its script, passed on: --smoke, --data, --device, --seeds, --help ..."
        ),
    ] = None,
    *,
    show: Annotated[bool, typer.Option("--list", "-l", help="List all, and what was recorded.")] = False,
) -> None:
    """Run a benchmark again: one for each table or figure of the results.

    The scripts are in the repository, not in the installed package: call this in a checkout. A run writes NAME.json and
    a figure to build/reproduced, beside what was recorded (benchmarks/results), which stays; give --out and --figures
    for other folders. At its end it says how its figures agree with the recorded ones. One with --smoke takes seconds,
    on bundled or made-up data, and writes to build/smoke.

    Start with: fwshapley reproduce --list
    """
    with errors_explained():
        folder = find_checkout((Path.cwd(), *Path.cwd().parents, OWN_CHECKOUT)) / "benchmarks"
        scripts = find_scripts(folder)
        if show:
            console.print(_list(folder, scripts))
            return
        if name is None:
            raise ValueError(f"which benchmark? One of {', '.join(scripts)}; --list says what they show")
        if name not in scripts:
            meant = closest(name, list(scripts))
            hint = f" (did you mean {meant!r}?)" if meant else ""
            raise ValueError(f"there is no benchmark {name!r}{hint}; there are {', '.join(scripts)}")
        status = _run(folder / f"{name}.py", options or [])
    raise typer.Exit(status if status >= 0 else KILLED - status)


def find_checkout(places: Iterable[Path]) -> Path:
    """Return the first of some folders that is a checkout of the repository."""
    for place in places:
        if (place / "benchmarks").is_dir() and (place / "src" / "fwshapley").is_dir():
            return place
    raise FileNotFoundError(
        f"benchmarks are not part of the installed package: get the repository{_address()}, and call this in its folder"
    )


def find_scripts(folder: Path) -> dict[str, str]:
    """Return the first line of what each benchmark says of itself; scripts without --smoke only help others."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}
    return {
        name: (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
        for name, text in texts.items()
        if f'"{SMOKE}"' in text
    }


def _run(script: Path, options: Sequence[str]) -> int:
    """Run a script with this Python, its output as it comes, and return its exit status."""
    check_installed(script, [script.parents[1] / "examples"])
    options = list(options[1:] if options[:1] == ["--"] else options)
    folders = {} if MEASURE_NOTHING & {*options} else _choose_folders(script, options)
    for option, folder in folders.items():
        make_folder(folder, option)
        options += [] if _given(options, option) else [option, str(folder)]
    recorded = {} if SMOKE in options else _read_records(script.parent / "results", script.stem)
    if folders and not ONLY_JOIN & {*options} and not torch.cuda.is_available():
        _tell_of_gpus(recorded.values())
    started = time.time()
    command = [sys.executable, str(script), *options]
    errors.print(Text(f"running {' '.join(command[1:])}", style="dim"), soft_wrap=True)
    status, interrupted = run_to_end(command)
    if interrupted and status:
        errors.print(Text(f"stopped: {_on_going_on(script, options)}"), soft_wrap=True)
        return KILLED + signal.SIGINT
    if folders and not status:
        told = f"results are in {folders['--out']}, figures in {folders['--figures']}"
        errors.print(Text(told, style="dim"), soft_wrap=True)
        _tell_agreement(_read_records(folders["--out"], script.stem, since=started), recorded)
    return status


def _tell_of_gpus(recorded: Iterable[Mapping[str, Any]]) -> None:
    """Print how long it took with a GPU, which is not here, unless it was recorded without one, too."""
    hardware = [(document, measured_on(document)) for document in recorded]
    if hardware and all(any(map(_is_gpu, machines)) for _, machines in hardware):
        document, machines = hardware[0]
        before = f"recorded in {time_spent(document)} on {' and '.join(machines)}"
        told = f"{before}; there is no GPU here, so this may take many times as long"
        errors.print(Text(told, style="dim"), soft_wrap=True)


def _tell_agreement(found: Mapping[str, Any], recorded: Mapping[str, Any]) -> None:
    """Print how what was measured now agrees with what was recorded before it."""
    for name in (name for name in found if name in recorded):
        now, then = found[name], recorded[name]
        seeds = compare_seeds(now["seeds"], then["seeds"])
        console.print(Text(f"{name}{seeds}: {compare_figures(now['results'], then['results'])}"), soft_wrap=True)


def _read_records(folder: Path, name: str, since: float = 0.0) -> dict[str, dict[str, Any]]:
    """Return what a folder has of a benchmark, NAME.json and NAME_*.json, if it was written since some time."""
    files = [folder / f"{name}.json", *sorted(folder.glob(f"{name}_*.json"))]
    written = [file for file in files if file.is_file() and file.stat().st_mtime >= since]
    documents = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in written}
    return {stem: document for stem, document in documents.items() if document.get("benchmark") == stem}


def _choose_folders(script: Path, options: Sequence[str]) -> dict[str, Path]:
    """Return where to write: not where it would take the place of what was recorded, unless that was asked for."""
    usual = script.parents[1] / "build" / ("smoke" if SMOKE in options else "reproduced")
    return {option: Path(_given(options, option) or usual) for option in ("--out", "--figures")}


def _given(options: Sequence[str], wanted: str) -> str | None:
    """Return the value of an option, if it was given as `--name value` or `--name=value`."""
    for option, after in itertools.zip_longest(options, options[1:]):
        name, equals, value = option.partition("=")
        if name == wanted:
            return value if equals else after
    return None


def _on_going_on(script: Path, options: Sequence[str]) -> str:
    """What the same command does after it was stopped: a script that keeps pieces says so of its option --work."""
    keeps = KEEPS.search(script.read_text(encoding="utf-8"))
    if keeps is None:
        return "the same command starts anew"
    if keeps["usual"] or _given(options, "--work"):
        return "the same command goes on from finished pieces"
    return "the same command starts anew; one with --work FOLDER would go on from finished pieces"


def _list(folder: Path, scripts: dict[str, str]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("what it shows", ratio=3)
    table.add_column("recorded", ratio=2)
    for name, shown in scripts.items():
        recorded = [_recorded(document) for document in _read_records(folder / "results", name).values()]
        table.add_row(name, Text(shown), Text("\n".join(recorded) or "not recorded"))
    return table


def _recorded(document: dict[str, Any]) -> str:
    """When, on what and for how long a benchmark ran."""
    hardware = " and ".join(measured_on(document))
    return f"{document['date'][:10]}, {time_spent(document)} on {hardware}"


def time_spent(document: Mapping[str, Any]) -> str:
    """Seconds that a benchmark ran; where runs that it joined trained for longer than its last call, those of training.

    Such a benchmark records results["runs"], by name, each with its seconds.
    """
    runs = document.get("results", {}).get("runs", {}).values()
    trainings = [run["seconds"] for run in runs if isinstance(run, Mapping) and "seconds" in run]
    if sum(trainings) > document["wall_time_s"]:
        return f"{sum(trainings):,.0f} s of training in {len(trainings)} runs"
    return f"{document['wall_time_s']:,.0f} s"


def measured_on(document: Mapping[str, Any]) -> list[str]:
    """Machines that the figures of a benchmark come from: where its parts were joined from elsewhere, not the joiner's.

    Such a benchmark records results["machines"], a list or a list for each part, as "machine; versions".
    """
    known = document.get("results", {}).get("machines", [])
    origins = itertools.chain.from_iterable(known.values()) if isinstance(known, Mapping) else known
    names = list(dict.fromkeys(origin.partition("; ")[0] for origin in origins))
    machine = document["machine"]
    return names or [machine["gpu"] or f"{machine['cores']} cores of {machine['processor']}"]


def _is_gpu(machine: str) -> bool:
    return not CORES.match(machine)


def _address() -> str:
    """Where the repository is, if the package says so."""
    try:
        addresses = metadata("fwshapley").get_all("Project-URL") or []
    except PackageNotFoundError:  # a source tree on the path
        return ""
    found = [each.partition(", ")[2] for each in addresses if each.lower().startswith(("repository", "source"))]
    return f" ({found[0]})" if found else ""
