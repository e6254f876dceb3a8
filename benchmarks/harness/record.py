"""Write the record of an experiment: its results, with machine, versions, command, seeds and wall time.

Every experiment uses it:

    started = time.perf_counter()
    ...
    record("paper_kernel", results, out=arguments.out, seeds=[0, 1], started=started)  # <out>/paper_kernel.json
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from fwshapley import __version__
from fwshapley._internal.files import written_whole

PACKAGES = ("numpy", "scipy", "torch")


def record(
    name: str,
    results: Mapping[str, Any],
    *,
    out: str | Path,
    seeds: Sequence[int],
    started: float,
    packages: Sequence[str] = (),
    device: str | None = None,
) -> Path:
    """Write <out>/<name>.json atomically, and return its path.

    Args:
        name: name of the experiment, without ".json".
        results: JSON types, or anything with a `tolist` (tensors, arrays); NaN and infinity raise an error.
        out: folder; it is made if it does not exist.
        seeds: all seeds that were used.
        started: `time.perf_counter()` at the start of the run.
        packages: further packages whose versions are recorded, such as ["shapiq"].
        device: device that was measured; with "cpu", no GPU is recorded even if there is one.
    """
    document = {
        "benchmark": name,
        "command": command_line(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "wall_time_s": round(time.perf_counter() - started, 2),
        "seeds": list(seeds),
        "machine": machine(device),
        "versions": {"python": platform.python_version(), "fwshapley": __version__}
        | {each: version(each) for each in (*PACKAGES, *packages)},
        "results": results,
    }
    text = json.dumps(document, indent=1, allow_nan=False, default=lambda value: value.tolist())
    path = Path(out) / f"{name}.json"
    with written_whole(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    return path


def recorded(name: str, out: str | Path) -> dict[str, Any]:
    """Return the results of a record, or an empty dictionary if there is none."""
    path = Path(out) / f"{name}.json"
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["results"] if path.exists() else {}
    return results


def machine(device: str | None = None) -> dict[str, str | int | None]:
    """Platform, processor, cores and threads of this process, and the GPU if it is used."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    on_gpu = device is None or torch.device(device).type != "cpu"
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": cores,
        "torch_threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name(device) if on_gpu and torch.cuda.is_available() else None,
    }


def command_line() -> str:
    """The command that was run, from the root of the repository; absolute paths become relative."""
    script = Path(sys.argv[0])
    return shlex.join(["python", f"{script.resolve().parent.name}/{script.name}", *map(_relative, sys.argv[1:])])


def _relative(argument: str) -> str:
    option, equals, value = argument.rpartition("=")
    if not Path(value).is_absolute():
        return argument
    path = Path(value).resolve()
    value = str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else path.name
    return option + equals + value


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"
