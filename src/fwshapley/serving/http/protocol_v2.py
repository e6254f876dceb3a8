"""The Open Inference Protocol v2: tensors in and out, as JSON or as bytes."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from fwshapley._internal.version import __version__
from fwshapley.serving.http.json_messages import JSON_TYPE, JsonResponse
from fwshapley.serving.http.openapi import ERRORS, INFER, describe
from fwshapley.serving.http.plain_route import PlainRoute
from fwshapley.serving.http.service import Service, read_body, work
from fwshapley.serving.http.tensors import (
    BYTES_TYPE,
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


def make_router(service: Service) -> APIRouter:
    """Return the routes of the protocol.

    Args:
        service: with the models.
    """
    router = APIRouter(route_class=PlainRoute, tags=["v2"], responses=ERRORS)

    @router.get("/v2", **describe("About the server"))
    async def show_server(_: Request) -> Response:
        return JsonResponse(SERVER)

    @router.get("/v2/health/live", **describe("Whether the server runs"))
    async def show_live(_: Request) -> Response:
        return JsonResponse({"live": True})

    @router.get("/v2/health/ready", **describe("Whether the server is ready"))
    async def show_ready(_: Request) -> Response:
        return JsonResponse({"ready": True})

    @router.get("/v2/models/{name}", **describe("Tensors of a model"))
    async def show_tensors(_: Request, name: str) -> Response:
        return JsonResponse(_describe_tensors(service.find(name).model))

    @router.get("/v2/models/{name}/ready", **describe("Whether a model is ready"))
    async def show_model_ready(_: Request, name: str) -> Response:
        return JsonResponse({"name": service.find(name).model.name, "ready": True})

    @router.post("/v2/models/{name}/infer", **INFER)
    async def infer(request: Request, name: str) -> Response:
        served = service.find(name)
        body, length = await read_body(request, BYTES_TYPE), request.headers.get(HEADER)
        most = service.settings.max_instances
        asked, prepared, query = await work(len(body), _read, served.model, body, length, most)
        answer = await service.answer(served, prepared, query)
        return await work(answer.values.nbytes, _write, served.model.name, asked, answer, query)

    return router


def _read(
    model: ServedModel[Any], body: bytes, header_length: str | None, most: int
) -> tuple[InferRequest, Any, Query]:
    """Return what a request asks for, prepared inputs, and the query."""
    asked = read_infer_request(body, header_length)
    named = asked.outputs or {}
    also = {"errors": "expected_error", "coefficients": "coefficients"}
    query = read_query(asked.parameters | {name: True for name, output in also.items() if output in named})
    return asked, model.prepare(model.fields.read_tensors(asked.tensors, most), query), query


def _write(name: str, asked: InferRequest, answer: Answer, query: Query) -> Response:
    """Return the outputs that a request asks for."""
    tensors = select_outputs(_name_outputs(answer, query), None if asked.outputs is None else list(asked.outputs))
    binary = asked.outputs or dict.fromkeys(tensors, asked.binary)
    facts = {"model_name": name, **({} if asked.id is None else {"id": asked.id})}
    content, length = write_infer_response(facts, tensors, binary)
    if length is None:
        return Response(content, media_type=JSON_TYPE)
    return Response(content, media_type=BYTES_TYPE, headers={HEADER: str(length)})


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


def _describe_tensors(model: ServedModel[Any]) -> dict[str, Any]:
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
