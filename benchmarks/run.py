"""Run the experiments behind docs/results, and compare a new run with the record.

python benchmarks/run.py list                    # every experiment, and when and on what it was recorded
python benchmarks/run.py paper_kernel            # run one; results and figures go to build/reproduced
python benchmarks/run.py paper_kernel --smoke    # check that it runs: seconds, on bundled or generated data
python benchmarks/run.py paper_kernel --help     # its options
python benchmarks/run.py compare paper_kernel    # compare the last run, or one in another folder, with the record
"""

from __future__ import annotations

import difflib
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

if not __package__:  # called as a script: import from the root of the repository
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.harness.comparison import compare_figures, compare_seeds
from benchmarks.harness.formats import duration
from benchmarks.harness.options import REPRODUCED
from benchmarks.harness.provenance import experiments, is_gpu, measured_on, read_records, seconds_spent

INTERRUPTED = 128 + signal.SIGINT
"""Exit status of a shell for a program that Ctrl-C ended."""


def main(words: Sequence[str]) -> None:
    """Do what the command line asks for."""
    command, *rest = words or ["--help"]
    if command in {"-h", "--help"}:
        print(__doc__)
    elif command == "list":
        print_list()
    elif command == "compare":
        name, folder = (*rest, "", "")[:2]
        compare(name, Path(folder) if folder else REPRODUCED)
    else:
        run(command, rest)


def print_list() -> None:
    """Print a line for each experiment: what it measures, and when, on what and for how long it ran for the record."""
    known = experiments()
    width = max(map(len, known))
    for name, measures in known.items():
        records = "; ".join(map(recorded, read_records(name).values())) or "not recorded"
        print(f"{name:{width}}  {measures} [{records}]")


def recorded(document: Mapping[str, Any]) -> str:
    """When, on what and for how long a record was measured."""
    return f"{document['date'][:10]}, {' and '.join(measured_on(document))}, {duration(seconds_spent(document))}"


def run(name: str, options: Sequence[str]) -> None:
    """Run an experiment; then print where its results are and how they compare with the record."""
    experiment = load(name)
    arguments = experiment.parse(options)
    measures = not (arguments.smoke or getattr(arguments, "draw", False))
    records = read_records(name) if measures else {}
    if records and all(is_gpu(machine) for document in records.values() for machine in measured_on(document)):
        print(f"recorded as {recorded(next(iter(records.values())))}; it takes far longer without that GPU", flush=True)
    started = time.time()
    experiment.main(arguments)
    new = read_records(name, arguments.out, since=started)
    if new:
        print(f"results are in {arguments.out}, figures in {arguments.figures}")
    print_comparison(new, records)


def compare(name: str, folder: Path) -> None:
    """Print how the last run of an experiment, in a folder, compares with its record."""
    check_name(name)
    new = read_records(name, folder)
    if not new:
        raise SystemExit(f"there is no run of {name} in {folder}: run `python benchmarks/run.py {name}` first")
    print_comparison(new, read_records(name))


def print_comparison(new: Mapping[str, Any], records: Mapping[str, Any]) -> None:
    """Print a line for each record that was measured again."""
    for name in (name for name in new if name in records):
        seeds = compare_seeds(new[name]["seeds"], records[name]["seeds"])
        print(f"{name}{seeds}: {compare_figures(new[name]['results'], records[name]['results'])}")


def load(name: str) -> ModuleType:
    """Import an experiment, or end with a message if there is none of that name or a package is missing."""
    check_name(name)
    try:
        return import_module(f"benchmarks.experiments.{name}")
    except ModuleNotFoundError as error:
        raise SystemExit(f"{name} needs {error.name}, which is not installed: pip install '.[dev]'") from error


def check_name(name: str) -> None:
    """End with a message unless there is an experiment of that name."""
    known = experiments()
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise SystemExit(f"there is no experiment {name!r}{hint}; there are {', '.join(known)}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
