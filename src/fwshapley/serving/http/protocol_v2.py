"""The Open Inference Protocol v2: tensors in and out, as JSON or as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from fwshapley._internal.version import __version__
from fwshapley.serving.http.application import Route
from fwshapley.serving.http.messages import BYTES_TYPE, Reply, Request, write_json
from fwshapley.serving.http.openapi import INFER, describe_get
from fwshapley.serving.http.service import Service, check_type, work
from fwshapley.serving.http.tensors import (
    HEADER,
    InferRequest,
    read_infer_request,
    select_outputs,
    write_infer_response,
)
from fwshapley.serving.query import Query, read_query
from fwshapley.serving.served_model import Answer, ServedModel

SERVER = {"name": "fwshapley", "version": __version__, "extensions": ["binary_tensor_data"]}
DATATYPES = {"number": "FP64", "category": "BYTES", "date": "BYTES"}


def make_routes(service: Service) -> Sequence[Route]:
    """Return the routes of the protocol.

    Args:
        service: with the models.
    """

    async def show_server(_: Request) -> Reply:
        return Reply(write_json(SERVER))

    async def show_live(_: Request) -> Reply:
        return Reply(write_json({"live": True}))

    async def show_ready(_: Request) -> Reply:
        return Reply(write_json({"ready": True}))

    async def show_tensors(request: Request) -> Reply:
        return Reply(write_json(_describe(service.find(request.name).model)))

    async def show_model_ready(request: Request) -> Reply:
        return Reply(write_json({"name": service.find(request.name).model.name, "ready": True}))

    async def infer(request: Request) -> Reply:
        served = service.find(request.name)
        check_type(request, BYTES_TYPE)
        most = service.settings.max_instances
        asked, prepared, query = await work(len(request.body), _read, served.model, request, most)
        answer = await service.answer(served, prepared, query)
        return await work(answer.values.nbytes, _write, served.model.name, asked, answer, query)

    return [
        Route("GET", "/v2", show_server, describe_get("v2", "About the server")),
        Route("GET", "/v2/health/live", show_live, describe_get("v2", "Whether the server runs")),
        Route("GET", "/v2/health/ready", show_ready, describe_get("v2", "Whether the server is ready")),
        Route("GET", "/v2/models/{name}", show_tensors, describe_get("v2", "Tensors of a model")),
        Route("GET", "/v2/models/{name}/ready", show_model_ready, describe_get("v2", "Whether a model is ready")),
        Route("POST", "/v2/models/{name}/infer", infer, INFER),
    ]


def _read(model: ServedModel[Any], request: Request, most: int) -> tuple[InferRequest, Any, Query]:
    """Return what a request asks for, prepared inputs, and the query."""
    asked = read_infer_request(request.body, request.headers.get(HEADER))
    named = asked.outputs or {}
    also = {"errors": "expected_error", "coefficients": "coefficients"}
    query = read_query(asked.parameters | {name: True for name, output in also.items() if output in named})
    return asked, model.prepare(model.fields.read_tensors(asked.tensors, most), query), query


def _write(name: str, asked: InferRequest, answer: Answer, query: Query) -> Reply:
    """Return the outputs that a request asks for."""
    tensors = select_outputs(_name_outputs(answer, query), None if asked.outputs is None else list(asked.outputs))
    binary = asked.outputs or dict.fromkeys(tensors, asked.binary)
    facts = {"model_name": name, **({} if asked.id is None else {"id": asked.id})}
    content, length = write_infer_response(facts, tensors, binary)
    if length is None:
        return Reply(content)
    return Reply(content, media_type=BYTES_TYPE, headers={HEADER: str(length)})


def _name_outputs(answer: Answer, query: Query) -> dict[str, NDArray[Any]]:
    """Return the outputs of an answer by name."""
    one = slice(None) if query.is_list else 0  # a single weighting has no axis
    tensors: dict[str, NDArray[Any]] = {
        "values": answer.values[one],
        "base_values": answer.base_values,
        "outputs": answer.outputs,
        "predictions": answer.predictions,
    }
    if answer.expected_error is not None:
        tensors["expected_error"] = answer.expected_error[one]
    if answer.coefficients is not None:
        tensors["coefficients"] = answer.coefficients
    return tensors


def _describe(model: ServedModel[Any]) -> dict[str, Any]:
    """Return the inputs and outputs of a model, as the protocol has them."""
    fields = model.fields
    inputs: list[dict[str, Any]] = [{"name": "inputs", "datatype": "FP64", "shape": [-1, *fields.shape]}]
    if fields.columns is not None and any(column.kind != "number" for column in fields.columns):
        inputs = [
            {"name": column.name, "datatype": DATATYPES[column.kind], "shape": [-1, 1]} for column in fields.columns
        ]
    n, kind = model.players.n_players, "FP32" if model.kind == "learned" else "FP64"
    outputs = [
        {"name": "values", "datatype": kind, "shape": [-1, n, -1]},
        {"name": "base_values", "datatype": kind, "shape": [-1, -1]},
        {"name": "outputs", "datatype": "INT64", "shape": [-1, -1]},
        {"name": "predictions", "datatype": kind, "shape": [-1, len(model.output_names)]},
    ]
    return {"name": model.name, "platform": "fwshapley", "versions": [], "inputs": inputs, "outputs": outputs}
