"""Load on the server of explanations: requests a second, waiting times, and memory, with and without batches.

Clients ask one request after the other ("closed loop"), each over a connection of its own, for the Shapley values of
all outputs: rows of a table as JSON, and images as binary tensors, one or 32 a request. The clients are one process
that sends bytes made before, the server is another, and they share the cores. The reference is the same network,
called in a loop in one process with as many inputs a call, by one thread or by as many as there are cores, whichever
is faster; "ratio" is the server's inputs a second over those of the loop. What is measured is cut into equal windows;
"lowest" and "highest" are the slowest and the fastest of them.

    python benchmarks/run.py serve_load             # 13 minutes on two cores, which must be free
"""

from __future__ import annotations

import argparse
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
from matplotlib.figure import Figure
from torch import nn

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.record import record
from fwshapley.plots import new_figure
from fwshapley.serving.http.tensors import HEADER

CLIENTS = (1, 16, 64)
SECONDS, WINDOWS = 24.0, 3
"""Of each cell, and the number of parts that are compared."""

WARM_UP = 1.0
LOOP_SECONDS = 6.0
BATCHES: Mapping[str, Sequence[str]] = {"batches": [], "no batches": ["--batch", "1"]}
"""Options of the server."""

COLUMNS = 20
SIDE, PATCH, CLASSES, WIDTH = 32, 2, 10, 32
MODELS = ("table", "images")


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
    results: dict[str, Any] = {"seconds": arguments.seconds, "windows": arguments.windows}
    with tempfile.TemporaryDirectory() as folder:
        models = make_models(Path(folder), arguments.seeds[0], MODELS[: 1 if arguments.smoke else None])
        loads = {
            f"{load.model}, {load.n_inputs} a request": load
            for load in make_loads(arguments.seeds[0])
            if load.model in models
        }
        for name, load in loads.items():
            loops = measure_loops(Path(folder), load, arguments.loop_seconds)
            results[name] = {"loops": loops, "inputs a second in a loop": max(loops.values())}
        for batches in list(BATCHES)[: 1 if arguments.smoke else None]:
            with served([Path(folder) / f"{model}.onnx" for model in models], BATCHES[batches]) as server:
                for name, load in loads.items():
                    runs = {str(n): measure(server, load, n, arguments) for n in arguments.clients}
                    for run in runs.values():
                        run["ratio"] = run["inputs a second"] / results[name]["inputs a second in a loop"]
                    results[name][batches] = runs
                    print(name, batches, *(f"\n  {n} clients: {run}" for n, run in runs.items()), flush=True)
    packages = ["fastapi", "onnxruntime", "orjson", "uvicorn", "uvloop"]
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
    arguments.seconds, arguments.windows = (0.5, 2) if arguments.smoke else (SECONDS, WINDOWS)
    arguments.warm_up = 0.1 if arguments.smoke else WARM_UP
    arguments.loop_seconds = 0.1 if arguments.smoke else LOOP_SECONDS
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
    json_type = {"Content-Type": "application/json"}
    loads = []
    for count in (1, 32):
        rows = generator.normal(size=(count, COLUMNS)).round(4).tolist()
        body = json.dumps({"instances": rows, "parameters": {"outputs": "all"}}).encode()
        loads.append(Load("table", count, "/v1/models/table:explain", body, json_type))
    for count in (1, 32):
        images = generator.normal(size=(count, 3, SIDE, SIDE)).astype(np.float32)
        tensor: dict[str, Any] = {"name": "inputs", "datatype": "FP32", "shape": images.shape}
        tensor["parameters"] = {"binary_data_size": images.nbytes}
        parameters = {"outputs": "all", "binary_data_output": True}
        head = json.dumps({"inputs": [tensor], "parameters": parameters}).encode()
        headers = {"Content-Type": "application/octet-stream", HEADER: str(len(head))}
        loads.append(Load("images", count, "/v2/models/images/infer", head + images.tobytes(), headers))
    return loads


def measure_loops(folder: Path, load: Load, seconds: float) -> dict[str, float]:
    """Return inputs a second of the network, called in a loop with as many inputs a call as a request has."""
    speeds = {}
    for name, n_threads in {"one thread": 1, "all cores": os.cpu_count()}.items():
        explainer = fw.load_onnx(folder / f"{load.model}.onnx", n_threads=n_threads)
        x = np.random.default_rng(0).normal(size=(load.n_inputs, *explainer.input_shape)).astype(explainer.dtype)
        explainer.compute(x)
        calls, start = 0, time.perf_counter()
        while time.perf_counter() < start + seconds:
            explainer.compute(x)
            calls += 1
        speeds[name] = calls * load.n_inputs / (time.perf_counter() - start)
    return speeds


class Server(NamedTuple):
    """A server in a process of its own.

    Attributes:
        host: address to connect to.
        port: of it.
        process: of it.
    """

    host: str
    port: int
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
            found = re.search(r"http://([\d.]+):(\d+)", line)
            if found is None:
                raise RuntimeError(f"the server did not start: {line}")
            yield Server(found[1], int(found[2]), psutil.Process(process.pid))
        finally:
            process.send_signal(signal.SIGTERM)


def measure(server: Server, load: Load, n_clients: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Return what clients measured, and the server's memory and time of its cores."""
    ask_in_loops(server, load, n_clients, arguments.warm_up)
    memory, used = server.process.memory_info().rss, sum(server.process.cpu_times()[:2])
    answers = ask_in_loops(server, load, n_clients, arguments.seconds)
    ends = np.array([end for end, _ in answers])
    counts = np.histogram(ends, arguments.windows, (0, arguments.seconds))[0]
    a_second = counts * load.n_inputs * arguments.windows / arguments.seconds
    milliseconds = 1000 * np.array([time for _, time in answers])
    return {
        "requests a second": float(counts.sum() / arguments.seconds),
        "inputs a second": float(a_second.mean()),
        "lowest": float(a_second.min()),
        "highest": float(a_second.max()),
        "median ms": float(np.median(milliseconds)),
        "p99 ms": float(np.quantile(milliseconds, 0.99)),
        "CPU ms a request": 1000 * (sum(server.process.cpu_times()[:2]) - used) / len(answers),
        "MiB before": memory / 2**20,
        "MiB after": server.process.memory_info().rss / 2**20,
    }


@dataclass
class Client:
    """A connection that waits for the answer to a request.

    Attributes:
        connection: to the server.
        began: when the request was sent.
        missing: bytes of the answer; None as long as its head is not complete.
        head: bytes that arrived before that.
    """

    connection: socket.socket
    began: float = 0.0
    missing: int | None = None
    head: bytes = b""

    def send(self, request: bytes) -> None:
        """Ask."""
        self.began, self.missing, self.head = time.perf_counter(), None, b""
        self.connection.sendall(request)

    def receive(self) -> bool:
        """Take what has arrived; return whether the answer is complete."""
        data = self.connection.recv(2**20)
        if not data:
            raise RuntimeError("the server closed a connection")
        if self.missing is not None:
            self.missing -= len(data)
        else:
            self.head += data
            head, found, body = self.head.partition(b"\r\n\r\n")
            if found:
                if not head.startswith(b"HTTP/1.1 200"):
                    raise RuntimeError(f"the server answered {self.head[:1000]!r}")
                length = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
                assert length is not None  # noqa: S101 - the server tells it
                self.missing = int(length[1]) - len(body)
        return self.missing == 0


def ask_in_loops(server: Server, load: Load, n_clients: int, seconds: float) -> list[tuple[float, float]]:
    """Return when each answer of several clients arrived, from the start, and how long it took; all in one thread."""
    headers = "".join(f"{name}: {value}\r\n" for name, value in load.headers.items())
    head = f"POST {load.path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {len(load.body)}\r\n\r\n"
    request = head.encode() + load.body
    answers: list[tuple[float, float]] = []
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        start = time.perf_counter()
        for _ in range(n_clients):
            client = Client(stack.enter_context(socket.create_connection((server.host, server.port))))
            client.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(client.connection, selectors.EVENT_READ, client)
            client.send(request)
        while selector.get_map():
            for key, _ in selector.select():
                client = key.data
                if client.receive():
                    now = time.perf_counter()
                    answers.append((now - start, now - client.began))
                    if now - start < seconds:
                        client.send(request)
                    else:
                        selector.unregister(client.connection)
    return answers


def draw(results: Mapping[str, Any]) -> Figure:
    """Inputs a second over those of a loop against clients, with and without batches."""
    names = [name for name, runs in results.items() if isinstance(runs, dict)]
    figure = new_figure(width=2.6 * len(names), height=2.8)
    for place, name in enumerate(names):
        axes = figure.add_subplot(1, len(names), place + 1)
        for batches, style in {"batches": "o-", "no batches": "s--"}.items():
            runs = results[name].get(batches, {})
            axes.plot([int(n) for n in runs], [run["ratio"] for run in runs.values()], style, label=batches)
        axes.axhline(1, color="gray", linewidth=0.8)
        axes.set(title=name, xlabel="clients", xscale="log")
        axes.set_ylim(bottom=0)
    figure.axes[0].set_ylabel("inputs a second / in a loop")
    figure.axes[0].legend()
    return figure
