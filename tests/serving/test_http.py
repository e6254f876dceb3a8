"""What the server answers is what Python computes; what is wrong is named; limits hold."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from fastapi import APIRouter, Request

import fwshapley as fw
from fwshapley.serving.http.batching import BatchLimits
from fwshapley.serving.http.settings import ServerSettings
from fwshapley.serving.served_model import ServedModel
from models import images
from serving_parts import ERRORS_KNOWN, PATIENCE, Explained, Running, as_instances, running, wines


def assert_close(ours: Any, theirs: Any) -> None:  # noqa: ANN401 - arrays and tensors
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def values_of(answer: dict[str, Any]) -> np.ndarray[Any, Any]:
    return np.array([one["values"] for one in answer["explanations"]])


@pytest.mark.parametrize("total", ["raw", "efficient"])
def test_explanations_of_v1_are_those_of_python(server: Running, explained: dict[str, Explained], total: str) -> None:
    table = wines(5)
    parameters = {"alpha": 4, "beta": 1, "outputs": ["age", 0], "total": total}
    response = server.post("/v1/models/wines:explain", {"instances": as_instances(table), "parameters": parameters})
    expected = explained["wines"].explainer.explain(table, weights=fw.Beta(4, 1), outputs=[1, 0], total=total)
    answer = response.json()
    assert_close(values_of(answer), expected.values)
    np.testing.assert_allclose([one["base_values"] for one in answer["explanations"]], expected.base_values, rtol=1e-6)
    assert [one["outputs"] for one in answer["explanations"]] == [["age", "price"]] * 5
    assert answer["players"] == ["acid", "region", "bottled"]


def test_rows_may_be_lists_and_several_weightings_have_an_axis(
    server: Running, explained: dict[str, Explained]
) -> None:
    rows = [list(row.values()) for row in as_instances(wines(4))]
    weights = [[4, 1], {"semivalue": "Banzhaf", "t": 0.3}]
    answer = server.post("/v1/models/wines:explain", {"instances": rows, "parameters": {"weights": weights}}).json()
    expected = explained["wines"].explainer.explain(wines(4), weights=[fw.Beta(4, 1), fw.Banzhaf(0.3)], outputs="all")
    assert_close(values_of(answer), expected.values.movedim(0, 1))


def test_expected_errors_and_coefficients_are_given_if_asked_for(
    server: Running, explained: dict[str, Explained]
) -> None:
    parameters = {"errors": True, "coefficients": True, "outputs": "all"}
    answer = server.post(
        "/v1/models/wines:explain", {"instances": as_instances(wines(3)), "parameters": parameters}
    ).json()["explanations"]
    expected = explained["wines"].explainer.explain(wines(3), outputs="all", errors=True)
    np.testing.assert_allclose([one["expected_error"] for one in answer], expected.expected_error, rtol=1e-4)
    mixture = explained["wines"].model.basis.mixture(fw.Shapley())
    coefficients = np.array([one["coefficients"] for one in answer])
    assert_close(np.einsum("j,bnjo->bno", mixture, coefficients), expected.values)


def test_exact_explainers_answer_with_coefficients_that_give_every_weighting(
    server: Running, explained: dict[str, Explained]
) -> None:
    x = np.random.default_rng(1).normal(size=(2, 3))
    parameters = {"coefficients": True, "alpha": 16, "beta": 1, "total": "efficient"}
    answer = server.post("/v1/models/linear:explain", {"instances": x.tolist(), "parameters": parameters}).json()
    linear, model = explained["linear"].explainer, explained["linear"].model
    np.testing.assert_allclose(values_of(answer), linear.explain(x, weights=fw.Beta(16, 1)).values, atol=1e-9)
    coefficients = np.array([one["coefficients"] for one in answer["explanations"]])
    raw = np.einsum("j,bnjo->bno", model.basis.mixture(fw.Beta(16, 1)), coefficients)
    np.testing.assert_allclose(raw, linear.explain(x, weights=fw.Beta(16, 1)).values, atol=1e-9)
    predictions = server.post("/v1/models/linear:predict", {"instances": x.tolist()}).json()["predictions"]
    np.testing.assert_allclose(predictions, linear.predict(x))


@pytest.fixture
def client(server: Running) -> Iterator[triton.InferenceServerClient]:
    made = triton.InferenceServerClient(server.address.removeprefix("http://"))
    yield made
    made.close()


@pytest.mark.parametrize("binary", [True, False])
def test_the_client_of_the_open_inference_protocol_gets_tensors(
    client: triton.InferenceServerClient, explained: dict[str, Explained], *, binary: bool
) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("shapes")
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    assert [one["name"] for one in client.get_model_metadata("wines")["inputs"]] == ["acid", "region", "bottled"]
    x = images(3, seed=2).numpy()
    tensor = triton.InferInput("inputs", list(x.shape), "FP32")
    tensor.set_data_from_numpy(x, binary_data=binary)
    names = ["values", "base_values", "outputs", "predictions", "coefficients"]
    wanted = [triton.InferRequestedOutput(name, binary_data=binary) for name in names]
    parameters = {"alpha": 2.0, "beta": 1.0, "outputs": "all", "total": "efficient"}
    result = client.infer("shapes", [tensor], outputs=wanted, parameters=parameters, request_id="7")
    expected = explained["shapes"].explainer.explain(x, weights=fw.Beta(2, 1), outputs="all", total="efficient")
    assert_close(result.as_numpy("values"), expected.values)
    np.testing.assert_allclose(result.as_numpy("base_values"), expected.base_values, rtol=1e-6)
    assert result.as_numpy("outputs").tolist() == expected.outputs.tolist()
    assert result.get_response()["id"] == "7"


def test_the_client_sends_a_tensor_for_each_column_of_a_table(
    client: triton.InferenceServerClient, explained: dict[str, Explained]
) -> None:
    table = wines(4)
    tensors = []
    for name in table:
        column = table[[name]].to_numpy()
        is_number = column.dtype.kind == "f"
        tensor = triton.InferInput(name, list(column.shape), "FP64" if is_number else "BYTES")
        tensor.set_data_from_numpy(column if is_number else column.astype(object))
        tensors.append(tensor)
    result = client.infer("wines", tensors, parameters={"weights": "[[1, 1], [4, 1]]", "errors": True})
    expected = explained["wines"].explainer.explain(table, weights=ERRORS_KNOWN, outputs="all", errors=True)
    assert_close(result.as_numpy("values"), expected.values)
    np.testing.assert_allclose(result.as_numpy("expected_error"), expected.expected_error, rtol=1e-4)
    with pytest.raises(triton.InferenceServerException, match="there is no model"):
        client.infer("beers", tensors)


ROW = {"acid": 3.1, "region": "Médoc", "bottled": "2021-05-31"}
IMAGE = np.zeros((1, 8, 8)).tolist()
INSTANCES: dict[str, tuple[str, Any, str]] = {
    "none": ("wines", [], "instances"),
    "too many": ("linear", [[1, 2, 3]] * 2000, "instances"),
    "a column is missing": ("wines", [ROW, {"acid": 1}], "instances[1].region"),
    "another column": ("wines", [ROW | {"__proto__": 1}], "instances[0].__proto__"),
    "text for a number": ("wines", [ROW | {"acid": "3"}], "instances[0].acid"),
    "an unknown category": ("wines", [ROW, ROW | {"region": "Mosel"}], "instances[1].region"),
    "no date": ("wines", [ROW | {"bottled": "May"}], "instances[0].bottled"),
    "missing without a rule": ("wines", [ROW | {"region": None}], "instances[0].region"),
    "a nested entry": ("wines", [ROW | {"region": {}}], "instances[0].region"),
    "too few entries": ("linear", [[1, 2]], "instances[0]"),
    "ragged": ("shapes", [IMAGE, [[1, 2], [3]]], "instances[1]"),
    "another shape": ("shapes", [[[[1.0]]]], "instances"),
    "texts in an image": ("shapes", [[["a"]]], "instances[0]"),
}
PARAMETERS: dict[str, tuple[Any, str]] = {
    "a list": ([], "parameters"),
    "alpha alone": ({"alpha": 1}, "parameters.beta"),
    "alpha is 0": ({"alpha": 0, "beta": 1}, "parameters.alpha"),
    "no semivalue": ({"weights": [{"semivalue": "x"}]}, "parameters.weights[0]"),
    "no mixture": ({"weights": {"semivalue": "Cardinality", "weights": [1, 1, 1]}}, "parameters"),
    "no such output": ({"outputs": ["tannin"]}, "parameters"),
    "no classes": ({"outputs": "predicted"}, "parameters"),
    "no such total": ({"total": "all"}, "parameters.total"),
    "errors of others": ({"alpha": 2, "beta": 1, "errors": True}, "parameters"),
    "errors are no flag": ({"errors": 1}, "parameters.errors"),
    "another parameter": ({"gamma": 1}, "parameters.gamma"),
}
BODIES: dict[str, tuple[str, Any, int, str]] = {
    **{name: (model, {"instances": one}, 422, field) for name, (model, one, field) in INSTANCES.items()},
    **{
        name: ("wines", {"instances": [ROW], "parameters": one}, 422, field)
        for name, (one, field) in PARAMETERS.items()
    },
    "errors of exact values": (
        "linear",
        {"instances": [[1, 2, 3]], "parameters": {"errors": True}},
        422,
        "parameters.errors",
    ),
    "not an object": ("wines", [1], 400, ""),
    "no instances": ("wines", {}, 422, "instances"),
    "another field": ("wines", {"instances": [ROW], "alpha": 3}, 422, "alpha"),
    "no model": ("../../etc/passwd", {"instances": [ROW]}, 404, ""),
}


@pytest.mark.parametrize("case", BODIES.values(), ids=list(BODIES))
def test_errors_name_the_field(server: Running, case: tuple[str, Any, int, str]) -> None:
    name, body, status, field = case
    response = server.post(f"/v1/models/{name}:explain", body)
    assert response.status_code == status, response.text
    assert response.json().get("field", "") == field
    assert 0 < len(response.json()["error"]) < 400


BYTES = {"Inference-Header-Content-Length": "9999999"}
RAW: dict[str, tuple[bytes, dict[str, str], int]] = {
    "no JSON": (b"{", {"Content-Type": "application/json"}, 400),
    "NaN": (b'{"instances": [[NaN, 1, 2]]}', {"Content-Type": "application/json"}, 400),
    "a huge number": (b'{"instances": [[1, 2, 1e400]]}', {"Content-Type": "application/json"}, 400),
    "deep": (b"[" * 100_000, {"Content-Type": "application/json"}, 400),
    "digits": (b'{"instances": ' + b"9" * 100_000 + b"}", {"Content-Type": "application/json"}, 400),
    "not UTF-8": (b'{"\xff": 1}', {"Content-Type": "application/json"}, 400),
    "a form": (b'{"instances": []}', {"Content-Type": "text/plain"}, 415),
    "compressed": (b"", {"Content-Type": "application/json", "Content-Encoding": "gzip"}, 415),
}


@pytest.mark.parametrize("case", RAW.values(), ids=list(RAW))
def test_malformed_bodies_are_refused(server: Running, case: tuple[bytes, dict[str, str], int]) -> None:
    body, headers, status = case
    response = server.session.post(f"{server.address}/v1/models/linear:explain", data=body, headers=headers, timeout=9)
    assert response.status_code == status, response.text
    assert "error" in response.json()


TENSOR = {"name": "inputs", "shape": [1, 3], "datatype": "FP64", "data": [1, 2, 3]}
INFER: dict[str, tuple[Any, str]] = {
    "no inputs": ({}, "inputs"),
    "no name": ({"inputs": [{}]}, "inputs[0]"),
    "twice": ({"inputs": [TENSOR, TENSOR]}, "inputs[1].name"),
    "no shape": ({"inputs": [{**TENSOR, "shape": "3"}]}, "inputs[0].shape"),
    "another shape": ({"inputs": [{**TENSOR, "shape": [3, 3]}]}, "inputs[0].data"),
    "no such type": ({"inputs": [{**TENSOR, "datatype": "FP99"}]}, "inputs[0].datatype"),
    "texts": ({"inputs": [{**TENSOR, "datatype": "BYTES"}]}, "inputs[0].data"),
    "too many bytes": (
        {"inputs": [{**TENSOR, "parameters": {"binary_data_size": 9}}]},
        "inputs[0].parameters.binary_data_size",
    ),
    "no such output": ({"inputs": [TENSOR], "outputs": [{"name": "x"}]}, "outputs[0].name"),
    "infinite": ({"inputs": [{**TENSOR, "datatype": "FP16", "data": [1e9, 1, 1]}]}, "instances[0].column 0"),
}


@pytest.mark.parametrize("case", INFER.values(), ids=list(INFER))
def test_errors_of_tensors_name_the_field(server: Running, case: tuple[Any, str]) -> None:
    response = server.post("/v2/models/linear/infer", case[0])
    assert (response.status_code, response.json()["field"]) == (422, case[1]), response.text
    wrong_length = server.post("/v2/models/linear/infer", case[0], headers=BYTES)
    assert (wrong_length.status_code, wrong_length.json()["field"]) == (400, "inference-header-content-length")


def test_every_answer_has_a_number_and_security_headers(server: Running) -> None:
    response = server.get("/v1/models", headers={"X-Request-Id": "mine-1"})
    assert response.headers["X-Request-Id"] == "mine-1"
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in response.headers
    other = server.get("/v1/models", headers={"X-Request-Id": 'a"}\t{', "Origin": server.address})
    assert other.headers["X-Request-Id"] != 'a"}\t{'
    foreign = server.get("/v1/models", headers={"Origin": "https://example.org"})
    assert (foreign.status_code, foreign.json()["field"]) == (403, "Origin")
    assert "Access-Control-Allow-Origin" not in foreign.headers
    assert server.get("/v1/models", headers={"Host": "evil.example"}).status_code == 400


def test_metrics_count_requests_by_route(server: Running) -> None:
    server.post("/v1/models/linear:predict", {"instances": [[1, 2, 3]]})
    server.get("/v1/models/made-up-name")
    text = server.get("/metrics").text
    assert 'fwshapley_requests_total{route="/v1/models/{name}:predict",status="200"}' in text
    assert 'fwshapley_inputs_total{model="linear"}' in text
    assert "made-up-name" not in text


def test_the_server_asks_for_its_token(explained: dict[str, Explained]) -> None:
    settings = ServerSettings(token="secret", origins=("https://example.org",))  # noqa: S106 - of a test
    with running(lambda: {"linear": explained["linear"].model}, settings) as server:
        assert server.get("/v2/health/live").status_code == 200
        assert server.get("/").status_code == 200
        for token in (None, "Bearer wrong", "secret"):
            headers = {} if token is None else {"Authorization": token}
            assert server.get("/v1/models", headers=headers).status_code == 401
        allowed = server.get("/v1/models", headers={"Authorization": "Bearer secret", "Origin": "https://example.org"})
        assert allowed.json() == {"models": ["linear"]}
        assert allowed.headers["Access-Control-Allow-Origin"] == "https://example.org"
        preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        for origin, status in (("https://example.org", 200), ("https://other.example", 403)):
            asked = {"Origin": origin, **preflight}
            address = f"{server.address}/v1/models/linear:explain"
            assert server.session.options(address, headers=asked, timeout=PATIENCE).status_code == status


def test_routers_of_others_are_described_and_guarded(explained: dict[str, Explained]) -> None:
    router = APIRouter()

    @router.post("/double/{number}")
    async def double(request: Request, number: int) -> int:
        return 2 * number + len(await request.body())

    settings = ServerSettings(token="secret", max_body=10)  # noqa: S106 - of a test
    with running(lambda: {"linear": explained["linear"].model}, settings, [router]) as server:
        assert server.session.post(f"{server.address}/double/3", timeout=PATIENCE).status_code == 401
        server.session.headers["Authorization"] = "Bearer secret"
        for body, status in ((b"", 200), ((b" " * 8 for _ in range(2)), 413)):
            answer = server.session.post(f"{server.address}/double/3", data=body, timeout=PATIENCE)
            assert (answer.status_code, answer.headers["X-Content-Type-Options"]) == (status, "nosniff")
        assert server.session.post(f"{server.address}/double/x", timeout=PATIENCE).status_code == 422
        described = server.get("/openapi.json").json()
        assert {"/double/{number}", "/v1/models/{name}:explain"} < set(described["paths"])
        assert described["paths"]["/v2/models/{name}"]["get"]["parameters"][0]["name"] == "name"
        assert 'route="/double/{number}",status="200"' in server.get("/metrics").text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/v1/models", 200),
        ("HEAD", "/", 200),
        ("GET", "/v2/models/linear/infer", 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/v1/models/", 404),
        ("GET", "/nothing", 404),
    ],
)
def test_methods_and_addresses(server: Running, method: str, path: str, status: int) -> None:
    answer = server.session.request(method, server.address + path, timeout=PATIENCE)
    assert (answer.status_code, bool(answer.content)) == (status, method != "HEAD")
    assert status == 200 or "error" in answer.json()


def test_a_failure_of_the_server_is_told_and_counted(
    explained: dict[str, Explained], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = explained["linear"].model

    def fail(*_: object) -> None:
        raise RuntimeError("made to fail")

    monkeypatch.setitem(vars(model), "answer", fail)
    with running(lambda: {"linear": model}, ServerSettings()) as server:
        answer = server.post("/v1/models/linear:explain", {"instances": [[1, 2, 3]]})
        assert answer.status_code == 500
        assert "X-Request-Id" in answer.json()["error"]
        assert "made to fail" not in answer.text
        assert answer.headers["X-Request-Id"]
        assert 'status="500"' in server.get("/metrics").text


class Slow:
    """Makes the computation of a model wait until it is let go, and notes the sizes of batches."""

    def __init__(self, model: ServedModel[Any]) -> None:
        self.answer = model.answer
        self.sizes: list[int] = []
        self.go = threading.Event()

    def __call__(self, requests: Sequence[Any]) -> list[Any]:
        self.go.wait(10)
        self.sizes.append(len(requests))
        return self.answer(requests)


def test_requests_that_wait_are_computed_together_and_too_many_are_refused(explained: dict[str, Explained]) -> None:
    model = explained["linear"].model
    slow = Slow(model)
    object.__setattr__(model, "answer", slow)
    try:
        settings = ServerSettings(batches=BatchLimits(rows=8, queued=6))
        with running(lambda: {"linear": model}, settings) as server, ThreadPoolExecutor(9) as pool:
            body = {"instances": [[1, 2, 3]]}
            first = pool.submit(server.post, "/v1/models/linear:explain", body)
            wait_until(lambda: server.get("/metrics").text.count('fwshapley_batch_inputs_count{model="linear"} 1.0'))
            others = [pool.submit(server.post, "/v1/models/linear:explain", body) for _ in range(8)]
            wait_until(lambda: sum(other.done() for other in others) == 2)
            refused = [other.result() for other in others if other.done()]
            assert [response.status_code for response in refused] == [429, 429]
            assert {response.headers["Retry-After"] for response in refused} == {"1"}
            slow.go.set()
            assert {one.result().status_code for one in [first, *others]} == {200, 429}
            assert slow.sizes == [1, 6]
    finally:
        object.__delattr__(model, "answer")


def test_one_request_cannot_fail_the_others_of_its_batch(explained: dict[str, Explained]) -> None:
    model = explained["linear"].model
    answer = model.answer

    def fail(requests: Sequence[Any]) -> list[Any]:
        if any(float(rows[0, 0]) == 13 for rows, _ in requests):
            raise ValueError("unlucky")
        return answer(requests)

    object.__setattr__(model, "answer", fail)
    try:
        settings = ServerSettings(batches=BatchLimits(delay=0.2))
        with running(lambda: {"linear": model}, settings) as server, ThreadPoolExecutor(3) as pool:
            bodies = [{"instances": [[number, 2, 3]]} for number in (1, 13, 2)]
            responses = pool.map(lambda body: server.post("/v1/models/linear:explain", body), bodies)
            assert [response.status_code for response in responses] == [200, 422, 200]
    finally:
        object.__delattr__(model, "answer")


def test_slow_and_large_requests_end_without_harm_to_others(explained: dict[str, Explained]) -> None:
    settings = ServerSettings(read_seconds=1.0, max_body=1000)
    with running(lambda: {"linear": explained["linear"].model}, settings) as server:
        host, port = server.address.removeprefix("http://").split(":")
        silent = socket.create_connection((host, int(port)), timeout=10)
        half = socket.create_connection((host, int(port)), timeout=10)
        path = "POST /v1/models/linear:explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        half.sendall(f"{path}Content-Length: 500\r\n\r\n{{".encode())
        large = http.client.HTTPConnection(host, int(port), timeout=10)
        large.putrequest("POST", "/v1/models/linear:explain")
        large.putheader("Content-Type", "application/json")
        large.putheader("Content-Length", str(10**9))
        large.endheaders()
        assert large.getresponse().status == 413
        chunked = server.session.post(
            f"{server.address}/v1/models/linear:explain",
            data=(b" " * 100 for _ in range(50)),
            headers={"Content-Type": "application/json"},
            timeout=9,
        )
        assert chunked.status_code == 413
        assert server.post("/v1/models/linear:explain", {"instances": [[1, 2, 3]]}).status_code == 200
        busy = http.client.HTTPConnection(host, int(port), timeout=10)
        for _ in range(25):  # a connection that is used stays open
            busy.request("GET", "/v2/health/live")
            assert busy.getresponse().read() == b'{"live":true}'
            time.sleep(0.1)
        busy.close()
        assert b"408" in half.recv(100)
        assert silent.recv(100) == b""  # closed by the server
        silent.close()
        half.close()
        large.close()


def test_reloading_takes_new_models_and_keeps_the_old_ones_if_it_fails(explained: dict[str, Explained]) -> None:
    models = {"linear": explained["linear"].model}
    is_broken: list[bool] = []

    def load() -> dict[str, ServedModel[Any]]:
        if is_broken:
            raise FileNotFoundError("explainer.onnx")
        return dict(models)

    with running(load, ServerSettings()) as server:
        loop = server.server.servers[0].get_loop()
        reload = server.server.service.reload
        models["shapes"] = explained["shapes"].model
        asyncio.run_coroutine_threadsafe(reload(), loop).result(10)
        assert server.get("/v1/models").json() == {"models": ["linear", "shapes"]}
        models.clear()
        is_broken.append(True)
        asyncio.run_coroutine_threadsafe(reload(), loop).result(10)
        assert server.get("/v1/models").json() == {"models": ["linear", "shapes"]}
        assert 'fwshapley_reloads_total{result="failed"} 1.0' in server.get("/metrics").text


def wait_until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("it did not happen in 10 seconds")


def test_the_description_of_the_api_is_served_with_its_page(server: Running) -> None:
    described = server.get("/openapi.json").json()
    assert "/v1/models/{name}:explain" in described["paths"]
    page = server.get("/docs").text
    assert "http" not in page.replace("<!doctype html>", "")
    assert json.loads(json.dumps(described)) == described


def test_a_refinement_sends_the_mean_of_its_rounds(server: Running, explained: dict[str, Explained]) -> None:
    image, parameters = images(3, seed=1)[:1], {"alpha": 4, "beta": 1, "rounds": 2}
    body = {"instances": image.tolist(), "parameters": parameters}
    explainer = explained["shapes"].explainer
    response = server.post("/v1/models/shapes:refine", body, stream=True)
    lines = [json.loads(line) for line in response.iter_lines()]
    rounds = [
        explainer.refine(image, n_calls=256, weights=fw.Beta(4, 1), outputs="all", seed=seed, progress=False)
        for seed in range(2)
    ]
    assert_close(lines[0]["values"], rounds[0].values[0])
    assert_close(lines[1]["values"], sum(one.values[0] for one in rounds) / 2)
    assert_close(lines[1]["stderr"], sum(one.stderr[0].square() for one in rounds).sqrt() / 2)
    assert [(line["calls"], line["done"]) for line in lines] == [(256, False), (512, True)]
    exact = server.post("/v1/models/linear:refine", {"instances": [[1, 2, 3]]})
    assert (exact.status_code, exact.json()["field"]) == (422, "name")
    for wrong, field in (
        ({"rounds": 0}, "parameters.rounds"),
        ({"total": "raw"}, "parameters.total"),
        ([], "parameters"),
    ):
        refused = server.post("/v1/models/shapes:refine", {**body, "parameters": wrong})
        assert (refused.status_code, refused.json()["field"]) == (422, field)
