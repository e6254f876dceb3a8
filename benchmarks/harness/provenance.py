"""Read records, and the origin of their figures: machines, time, command, images. Does not need torch."""

from __future__ import annotations

import ast
import itertools
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
RECORDS = Path(__file__).parents[1] / "results"

Document = Mapping[str, Any]
"""A record: results, and the command, date, machine, versions and seeds that they come from."""

RECOMPRESSED = re.compile(r"([\w-]+)_jpeg(\d+)\.npz")
"""A data file whose images were recompressed: the name of the data set, and the JPEG quality."""


def experiments() -> dict[str, str]:
    """Name of each experiment, with the first line of its docstring."""
    scripts = sorted(path for path in EXPERIMENTS.glob("*.py") if path.stem != "__init__")
    docstrings = {path.stem: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) for path in scripts}
    return {name: (text or "").partition("\n")[0] for name, text in docstrings.items()}


def read_records(name: str, folder: Path = RECORDS, *, since: float = 0.0) -> dict[str, dict[str, Any]]:
    """Records of an experiment in a folder, NAME.json and NAME_*.json, if written since some time."""
    files = [folder / f"{name}.json", *sorted(folder.glob(f"{name}_*.json"))]
    written = [file for file in files if file.is_file() and file.stat().st_mtime >= since]
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in written}


def measured_on(document: Document) -> list[str]:
    """Machines that measured: those of the parts, where a record joins parts that were measured elsewhere."""
    parts = document["results"].get("machines", [])
    origins = itertools.chain.from_iterable(parts.values()) if isinstance(parts, Mapping) else parts
    names = list(dict.fromkeys(origin.partition("; ")[0] for origin in origins))
    machine = document["machine"]
    return names or [machine["gpu"] or f"{machine['cores']} cores of {machine['processor']}"]


def measured_with(document: Document) -> list[str]:
    """Machines that measured, each with the versions it had."""
    parts = document["results"].get("machines", [])
    origins = list(itertools.chain.from_iterable(parts.values()) if isinstance(parts, Mapping) else parts)
    versions = {name: number for name, number in document["versions"].items() if name != "fwshapley"}
    if "torch" in document["results"]:  # parts that know no more
        versions = {"torch": ", ".join(document["results"]["torch"])}
    own = ", ".join(f"{name} {number}" for name, number in versions.items())
    known = {machine: more for machine, _, more in (origin.partition("; ") for origin in sorted(origins))}
    return [f"{machine} ({known.get(machine) or own})" for machine in measured_on(document)]


def is_gpu(machine: str) -> bool:
    """Whether a name of `measured_on` is that of a GPU."""
    return not re.match(r"\d+ cores of ", machine)


def seconds_spent(document: Document) -> float:
    """Wall time of a record; where it joins runs that trained for longer than its last call, the time of training."""
    runs = document["results"].get("runs", {}).values()
    training = sum(run["seconds"] for run in runs if isinstance(run, Mapping) and "seconds" in run)
    return max(float(document["wall_time_s"]), training)


def commands_of(document: Document) -> list[str]:
    """Commands that made a record, files without their folders; several where it joins parts."""
    own = [run["how"]["command"] for run in _runs(document) if "how" in run]
    joined = document["results"].get("commands", [])
    return list(dict.fromkeys(map(_without_folders, (document["command"], *own, *joined))))


def recompressed(documents: Iterable[Document]) -> list[tuple[str, str]]:
    """Names of data sets whose images were recompressed, with the JPEG quality."""
    commands = (command for document in documents for command in commands_of(document))
    return sorted({(match[1], match[2]) for command in commands for match in RECOMPRESSED.finditer(command)})


def _runs(document: Document) -> list[Document]:
    runs = document["results"].get("runs", {}).values()
    return [run for run in runs if isinstance(run, Mapping)]


def _without_folders(command: str) -> str:
    interpreter, script, *options = shlex.split(command)
    return shlex.join([interpreter, script, *map(_without_folder, options)])


def _without_folder(argument: str) -> str:
    path = PurePath(argument)
    return path.name if path.suffix and "=" not in argument else argument
