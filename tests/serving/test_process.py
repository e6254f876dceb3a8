"""The process of `fwshapley serve`: signals lose no accepted request, and wrong options are refused."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import requests
from sklearn.linear_model import LinearRegression
from typer.testing import CliRunner

import fwshapley as fw
from fwshapley.cli import app
from serving_parts import PATIENCE

X = np.random.default_rng(0).normal(size=(30, 3))


def save_linear(folder: Path, slope: float) -> None:
    """Save an exact explainer of slope * (x0 + 2 x1)."""
    folder.mkdir(exist_ok=True)
    model = LinearRegression().fit(X, slope * X @ [1, 2, 0])
    fw.LinearExplainer(model, X).save(folder / "explainer.safetensors")


def ask_until_closed(host: str, port: int) -> list[float]:
    """Return predictions for (1, 1, 1), asked for one after the other until the server closes the connection."""
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
    predictions: list[float] = []
    connection.auto_open = 0
    connection.connect()
    try:
        while True:
            body, headers = '{"instances": [[1, 1, 1]]}', {"Content-Type": "application/json"}
            try:
                connection.request("POST", "/v1/models/prices:predict", body, headers)
                response = connection.getresponse()
            except (ConnectionError, http.client.NotConnected):  # nothing of an answer had come
                return predictions
            assert response.status == 200
            predictions.append(json.loads(response.read())["predictions"][0][0])
    finally:
        connection.close()


@pytest.mark.slow
def test_signals_under_load_lose_no_accepted_request(tmp_path: Path) -> None:
    save_linear(tmp_path / "prices", 1.0)
    command = [sys.executable, "-m", "fwshapley", "serve", "prices", "--port", "0", "--batch-delay", "20"]
    process = subprocess.Popen(  # noqa: S603 - our own code
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
        assert found is not None
        with ThreadPoolExecutor(9) as pool:
            log = pool.submit(process.communicate)
            clients = [pool.submit(ask_until_closed, found[1], int(found[2])) for _ in range(8)]
            wait_for_metric(found[0], "fwshapley_running_requests 9.0")  # that of the metrics is one of them
            save_linear(tmp_path / "prices", 10.0)
            process.send_signal(signal.SIGHUP)
            wait_for_metric(found[0], 'fwshapley_reloads_total{result="done"} 1.0')
            wait_for_metric(found[0], "fwshapley_running_requests 9.0")
            process.send_signal(signal.SIGTERM)
            predictions = [client.result() for client in clients]
        assert process.returncode == 0
        for of_client in predictions:
            np.testing.assert_allclose(of_client, sorted(of_client))
            np.testing.assert_allclose([of_client[0], of_client[-1]], [3, 30])
        lines = [json.loads(line) for line in log.result()[1].splitlines()]
        statuses = [line["status"] for line in lines if line.get("method") == "POST"]
        assert statuses == [200] * sum(map(len, predictions))  # what the server accepted, a client has got
        assert {"time", "level", "request_id", "path", "milliseconds"} <= set(
            next(one for one in lines if "status" in one)
        )
    finally:
        process.kill()
        process.wait()


def wait_for_metric(address: str, line: str) -> None:
    for _ in range(500):
        if line in requests.get(f"{address}/metrics", timeout=PATIENCE).text:
            return
        time.sleep(0.02)
    pytest.fail(f"the metrics never had {line}")


def test_the_command_line_exports_a_page_and_refuses_what_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_linear(tmp_path / "prices", 1.0)

    def export(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["export", "prices", *arguments], env={"COLUMNS": "500"})
        return " ".join((result.stdout + result.stderr).split())

    assert "has no samples to show" in export("page.html")
    (tmp_path / "rows.json").write_text('{"instances": [[1, 2, 3], [4, 5, 6]]}')
    assert "written to page.html" in export("page.html", "--samples", "rows.json")
    assert '"samples": [[1, 2, 3], [4, 5, 6]]' in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "page.html exists already" in export("page.html", "--samples", "rows.json")
    assert "which has no network: fwshapley serve takes it as it is" in export("prices.onnx")
    assert "must end in .onnx or .html" in export("prices.txt")
    assert "there is no file other.json" in export("page.html", "--samples", "other.json", "--force")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give folders of explainers, or --demo"),
        (["missing"], "there is no folder or file missing"),
        (["."], "contains neither explainer.onnx nor explainer.safetensors"),
        (["prices", "prices/explainer.safetensors"], "two explainers have the name 'prices'"),
        (["prices", "--token-file", "empty"], "must contain a token"),
        (["a b"], "cannot be in an address"),
        (["samples"], "samples.json: instances[0]: expected 3 entries, got 1"),
    ],
)
def test_wrong_folders_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("prices", "samples", "a b"):
        save_linear(tmp_path / name, 1.0)
    (tmp_path / "samples" / "samples.json").write_text('{"instances": [[1]]}')
    (tmp_path / "empty").write_text("\n")
    result = CliRunner().invoke(app, ["serve", *arguments, "--port", "0"], env={"COLUMNS": "500"})
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
