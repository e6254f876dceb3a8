"""Load on the server of explanations: requests a second, waiting times, and memory, with and without batches.

Clients in processes of their own ask one after the other ("closed loop"), each over a connection of its own, for the
Shapley values of all outputs: rows of a table as JSON, and images as binary tensors, one or 32 a request. The server
has a process of its own and runs an ONNX file. The reference is the same network, called in a loop in one process with
as many inputs a call; "ratio" is the server's inputs a second over those of the loop.

    python benchmarks/run.py serve_load             # 20 minutes on two cores, which must be free
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import requests
import torch
from matplotlib.figure import Figure
from torch import nn

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.record import record
from fwshapley.plots import new_figure
from fwshapley.serving.tensors import HEADER

CLIENTS = (1, 16, 64)
SECONDS = 60.0
WARM_UP = 2.0
BATCHES: Mapping[str, Sequence[str]] = {"batches": [], "no batches": ["--batch", "1"]}
"""Options of the server."""

COLUMNS = 20
SIDE, PATCH, CLASSES, WIDTH = 32, 2, 10, 32
MODELS = ("table", "images")
PROCESSES = 2
"""Of the clients: they share the two cores with the server."""


class Load(NamedTuple):
    """What clients ask for.

    Attributes:
        model: name of the model.
        n_inputs: of a request.
        path: of the requests.
        body: of each.
        headers: of each.
    """

    model: str
    n_inputs: int
    path: str
    body: bytes
    headers: dict[str, str]


def main(arguments: argparse.Namespace) -> None:
    """Make two explainers, put load on a server of them, print, draw, record."""
    started = time.perf_counter()
    torch.set_num_threads(2)
    results: dict[str, Any] = {"seconds": arguments.seconds}
    with tempfile.TemporaryDirectory() as folder:
        models = make_models(Path(folder), arguments.seeds[0], MODELS[: 1 if arguments.smoke else None])
        loads = {
            f"{load.model}, {load.n_inputs} a request": load
            for load in make_loads(arguments.seeds[0])
            if load.model in models
        }
        for name, load in loads.items():
            results[name] = {"inputs a second in a loop": measure_loop(Path(folder), load, arguments.seconds / 4)}
        for batches in list(BATCHES)[: 1 if arguments.smoke else None]:
            with served([Path(folder) / f"{model}.onnx" for model in models], BATCHES[batches]) as server:
                for name, load in loads.items():
                    runs = {str(n): measure(server, load, n, arguments) for n in arguments.clients}
                    for run in runs.values():
                        run["ratio"] = run["inputs a second"] / results[name]["inputs a second in a loop"]
                    results[name][batches] = runs
                    print(name, batches, *(f"\n  {n} clients: {run}" for n, run in runs.items()), flush=True)
    packages = ["fastapi", "onnxruntime", "uvicorn"]
    record("serve_load", results, out=arguments.out, seeds=arguments.seeds, started=started, packages=packages)
    save_figure(partial(draw, results), "serve_load", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments; a smoke run asks for half a second."""
    parser = ExperimentParser(
        __doc__,
        smoke="half a second of load on the table, by few clients",
        seeds=(0,),
        seeds_of="inputs and networks",
        single_seed=True,
    )
    arguments = parser.parse(options)
    arguments.seconds = 0.5 if arguments.smoke else SECONDS
    arguments.processes = 1 if arguments.smoke else PROCESSES
    arguments.clients = (1, 4) if arguments.smoke else CLIENTS
    return arguments


def make_models(folder: Path, seed: int, names: Sequence[str]) -> Sequence[str]:
    """Write explainers with these names; how well they explain does not matter here."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    rows = torch.randn(256, COLUMNS, generator=generator)
    fit: dict[str, Any] = {"budget": fw.Budget(steps=3), "n_coalitions": 4, "batch_size": 16, "progress": False}
    table = fw.FeatureExplainer(nn.Sequential(nn.Linear(COLUMNS, 32), nn.Tanh(), nn.Linear(32, 3)), device="cpu")
    table.fit(rows, **fit).to_onnx(folder / "table.onnx")
    if "images" in names:
        model = nn.Sequential(
            *(nn.Conv2d(3, WIDTH, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(WIDTH, 2 * WIDTH, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(2 * WIDTH * (SIDE // 4) ** 2, CLASSES)),
        )
        images = torch.randn(64, 3, SIDE, SIDE, generator=generator)
        explainer = fw.FeatureExplainer(model, fw.grid(SIDE, SIDE, patch=PATCH), network="slim", device="cpu")
        explainer.fit(images, **fit).to_onnx(folder / "images.onnx")
    return names


def make_loads(seed: int) -> list[Load]:
    """Return the requests that are measured."""
    generator = np.random.default_rng(seed)
    row = generator.normal(size=(1, COLUMNS)).tolist()
    json_type = {"Content-Type": "application/json"}
    body = json.dumps({"instances": row, "parameters": {"outputs": "all"}}).encode()
    loads = [Load("table", 1, "/v1/models/table:explain", body, json_type)]
    for count in (1, 32):
        images = generator.normal(size=(count, 3, SIDE, SIDE)).astype(np.float32)
        tensor: dict[str, Any] = {"name": "inputs", "datatype": "FP32", "shape": images.shape}
        tensor["parameters"] = {"binary_data_size": images.nbytes}
        parameters = {"outputs": "all", "binary_data_output": True}
        head = json.dumps({"inputs": [tensor], "parameters": parameters}).encode()
        headers = {"Content-Type": "application/octet-stream", HEADER: str(len(head))}
        loads.append(Load("images", count, "/v2/models/images/infer", head + images.tobytes(), headers))
    return loads


def measure_loop(folder: Path, load: Load, seconds: float) -> float:
    """Return inputs a second of the network, called in a loop with as many inputs a call as a request has."""
    explainer = fw.load_onnx(folder / f"{load.model}.onnx")
    x = np.random.default_rng(0).normal(size=(load.n_inputs, *explainer.input_shape)).astype(np.float32)
    calls, ends = 0, time.perf_counter() + seconds
    while time.perf_counter() < ends:
        explainer.compute(x)
        calls += 1
    return calls * load.n_inputs / seconds


class Server(NamedTuple):
    """A server in a process of its own.

    Attributes:
        address: of it.
        process: of it.
    """

    address: str
    process: psutil.Process


@contextmanager
def served(files: Sequence[Path], options: Sequence[str]) -> Iterator[Server]:
    """Serve explainers on a free port."""
    command = [sys.executable, "-m", "fwshapley", "serve", *map(str, files), "--port", "0", *options]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "200"}
    with subprocess.Popen(  # noqa: S603 - our own code
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            line = process.stdout.readline()
            found = re.search(r"http://[\d.]+:\d+", line)
            if found is None:
                raise RuntimeError(f"the server did not start: {line}")
            yield Server(found[0], psutil.Process(process.pid))
        finally:
            process.send_signal(signal.SIGTERM)


def measure(server: Server, load: Load, n_clients: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Return what clients measured, and the server's memory before and after."""
    seconds, n_processes = arguments.seconds, min(arguments.processes, n_clients)
    shares = [n_clients // n_processes + (place < n_clients % n_processes) for place in range(n_processes)]
    if n_processes == 1:
        ask_in_loops(server.address, load, n_clients, min(WARM_UP, seconds))
        before = server.process.memory_info().rss
        times = ask_in_loops(server.address, load, n_clients, seconds)
    else:
        with multiprocessing.get_context("spawn").Pool(n_processes) as pool:
            pool.starmap(ask_in_loops, [(server.address, load, share, WARM_UP) for share in shares])
            before = server.process.memory_info().rss
            parts = pool.starmap(ask_in_loops, [(server.address, load, share, seconds) for share in shares])
        times = [one for part in parts for one in part]
    milliseconds = 1000 * np.array(times)
    return {
        "requests a second": len(times) / seconds,
        "inputs a second": len(times) * load.n_inputs / seconds,
        "median ms": float(np.median(milliseconds)),
        "p99 ms": float(np.quantile(milliseconds, 0.99)),
        "MiB before": before / 2**20,
        "MiB after": server.process.memory_info().rss / 2**20,
    }


def ask_in_loops(address: str, load: Load, n_clients: int, seconds: float) -> list[float]:
    """Return the times of the requests of several clients, each a thread with a connection of its own."""
    ends = time.perf_counter() + seconds

    def ask(_: int) -> list[float]:
        times: list[float] = []
        with requests.Session() as session:
            while not times or time.perf_counter() < ends:
                began = time.perf_counter()
                response = session.post(address + load.path, data=load.body, headers=load.headers, timeout=60)
                response.raise_for_status()
                times.append(time.perf_counter() - began)
        return times

    with ThreadPoolExecutor(n_clients) as pool:
        return [one for times in pool.map(ask, range(n_clients)) for one in times]


def draw(results: Mapping[str, Any]) -> Figure:
    """Requests a second against clients, with and without batches."""
    names = [name for name in results if name != "seconds"]
    figure = new_figure(width=3.2 * len(names), height=2.8)
    for place, name in enumerate(names):
        axes = figure.add_subplot(1, len(names), place + 1)
        for batches, style in {"batches": "o-", "no batches": "s--"}.items():
            runs = results[name].get(batches, {})
            axes.plot([int(n) for n in runs], [run["requests a second"] for run in runs.values()], style, label=batches)
        axes.set(title=name, xlabel="clients", xscale="log")
        axes.set_ylim(bottom=0)
    figure.axes[0].set_ylabel("requests a second")
    figure.axes[0].legend()
    return figure
