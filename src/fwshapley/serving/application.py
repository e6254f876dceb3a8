"""Explanations over HTTP: KServe's v1 protocol, the Open Inference Protocol v2, metrics, and the page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from numpy.typing import NDArray
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from fwshapley._internal.version import __version__
from fwshapley.serving.guard import Guard, error_response
from fwshapley.serving.input_columns import Rows
from fwshapley.serving.metrics import Metrics
from fwshapley.serving.openapi import (
    EXPLAIN,
    INFER,
    MODEL_LIST,
    PREDICT,
    add_errors,
    answers,
)
from fwshapley.serving.page import PAGE_FILES, describe_model, read_asset
from fwshapley.serving.query import Query, read_query
from fwshapley.serving.request_errors import MALFORMED, OTHER_TYPE, RequestError
from fwshapley.serving.served_model import Answer, ServedModel
from fwshapley.serving.service import SMALL_BODY, Models, Service
from fwshapley.serving.settings import ServerSettings
from fwshapley.serving.tensors import HEADER, parse_json, read_infer_request, select_outputs, write_infer_response

JSON_TYPE, BYTES_TYPE = "application/json", "application/octet-stream"

log = logging.getLogger("fwshapley.serving")


def make_app(load: Callable[[], Models], settings: ServerSettings) -> FastAPI:
    """Return the application; `app.state.service` has its models.

    Args:
        load: returns the models; called now, and when they are loaded again.
        settings: of the server.
    """
    metrics = Metrics()
    service = Service(load, settings, metrics)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="fwshapley",
        version=__version__,
        description="Explanations by weighted Shapley values. Errors name the field of the request that is wrong.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    app.add_exception_handler(RequestError, _answer_error)
    app.add_exception_handler(HTTPException, _answer_http_error)
    _add_v1(app, service)
    _add_v2(app, service)
    _add_pages(app, service)
    if settings.origins:
        methods, headers = ["GET", "POST"], ["Authorization", "Content-Type", HEADER]
        app.add_middleware(
            CORSMiddleware, allow_origins=list(settings.origins), allow_methods=methods, allow_headers=headers
        )
    app.add_middleware(Guard, settings=settings, metrics=metrics)
    add_errors(app)
    return app


def _add_v1(app: FastAPI, service: Service) -> None:
    """Add KServe's v1 protocol."""

    @app.get("/v1/models", tags=["v1"], summary="Names of the models", responses=answers(MODEL_LIST))
    async def list_models() -> JSONResponse:
        return JSONResponse({"models": service.names})

    @app.get("/v1/models/{name}", tags=["v1"], summary="Whether a model is ready", responses=answers({}))
    async def show_model(name: str) -> JSONResponse:
        return JSONResponse({"name": service.find(name).name, "ready": True})

    @app.post("/v1/models/{name}:predict", tags=["v1"], summary="Predictions", **PREDICT)
    async def predict(request: Request, name: str) -> Response:
        body = await _read_body(request)
        _, answer = await service.explain(name, lambda model: _read_v1(model, body, service.settings), len(body))
        return await _json({"predictions": answer.predictions}, answer)

    @app.post("/v1/models/{name}:explain", tags=["v1"], summary="Values of the players of each instance", **EXPLAIN)
    async def explain(request: Request, name: str) -> Response:
        body = await _read_body(request)
        queries: list[Query] = []

        def read(model: ServedModel[Any, Any]) -> tuple[Rows, Query]:
            rows, query = _read_v1(model, body, service.settings)
            queries.append(query)
            return rows, query

        model, answer = await service.explain(name, read, len(body))
        return await _json(_describe(model, answer, queries[0]), answer)


def _add_v2(app: FastAPI, service: Service) -> None:
    """Add the Open Inference Protocol."""

    @app.get("/v2", tags=["v2"], summary="About the server", responses=answers({}))
    async def show_server() -> JSONResponse:
        return JSONResponse({"name": "fwshapley", "version": __version__, "extensions": ["binary_tensor_data"]})

    @app.get("/v2/health/live", tags=["v2"], summary="Whether the server runs", responses=answers({}))
    async def show_live() -> JSONResponse:
        return JSONResponse({"live": True})

    @app.get("/v2/health/ready", tags=["v2"], summary="Whether the server is ready", responses=answers({}))
    async def show_ready() -> JSONResponse:
        return JSONResponse({"ready": True})

    @app.get("/v2/models/{name}", tags=["v2"], summary="Tensors of a model", responses=answers({}))
    async def show_tensors(name: str) -> JSONResponse:
        return JSONResponse(_describe_tensors(service.find(name)))

    @app.get("/v2/models/{name}/ready", tags=["v2"], summary="Whether a model is ready", responses=answers({}))
    async def show_model_ready(name: str) -> JSONResponse:
        return JSONResponse({"name": service.find(name).name, "ready": True})

    @app.post("/v2/models/{name}/infer", tags=["v2"], summary="Values as tensors", **INFER)
    async def infer(request: Request, name: str) -> Response:
        body = await _read_body(request, BYTES_TYPE)
        header = request.headers.get(HEADER)
        service.find(name)  # or it is not found
        asked = (
            await asyncio.to_thread(read_infer_request, body, header)
            if len(body) >= SMALL_BODY
            else read_infer_request(body, header)
        )
        named = asked.outputs or {}
        query = read_query(
            asked.parameters
            | ({"errors": True} if "expected_error" in named else {})
            | ({"coefficients": True} if "coefficients" in named else {})
        )
        most = service.settings.max_instances
        model, answer = await service.explain(
            name, lambda model: (model.fields.read_tensors(asked.tensors, most), query), len(body)
        )
        tensors = select_outputs(_tensors_of(answer, query), None if asked.outputs is None else list(named))
        binary = asked.outputs or dict.fromkeys(tensors, asked.binary)
        facts = {"model_name": model.name, **({} if asked.id is None else {"id": asked.id})}
        content, length = await asyncio.to_thread(write_infer_response, facts, tensors, binary)
        if length is None:
            return Response(content, media_type=JSON_TYPE)
        return Response(content, media_type=BYTES_TYPE, headers={HEADER: str(length)})


def _add_pages(app: FastAPI, service: Service) -> None:
    """Add metrics, the page, and what it needs."""

    @app.get("/metrics", tags=["server"], summary="Metrics for Prometheus", include_in_schema=False)
    async def show_metrics() -> Response:
        return Response(service.metrics.write(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/page/models/{name}", tags=["server"], summary="A model as the page shows it", include_in_schema=False)
    async def show_description(name: str) -> JSONResponse:
        return JSONResponse(describe_model(service.find(name)))

    for path, (asset, media_type) in PAGE_FILES.items():
        app.add_api_route(path, _show_file(asset, media_type), include_in_schema=False)


def _show_file(asset: str, media_type: str) -> Callable[[], Response]:
    """Return a handler of one file of the package; no path comes from a request."""
    content = read_asset(asset)

    def show_file() -> Response:
        return Response(content, media_type=media_type)

    return show_file


async def _read_body(request: Request, *others: str) -> bytes:
    """Return the body of a request; raise a RequestError unless its type is that of the protocol.

    Clients of the Open Inference Protocol give none.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("", JSON_TYPE, *others):
        raise RequestError(f"the type must be {JSON_TYPE}", "Content-Type", status=OTHER_TYPE)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestError("compressed bodies are not accepted", "Content-Encoding", status=OTHER_TYPE)
    return await request.body()


def _read_v1(model: ServedModel[Any, Any], body: bytes, settings: ServerSettings) -> tuple[Rows, Query]:
    """Return inputs and query of a request of the v1 protocol."""
    request = parse_json(body)
    if not isinstance(request, dict):
        raise RequestError('the body must be an object such as {"instances": [...]}', status=MALFORMED)
    unknown = [name for name in request if name not in ("instances", "parameters")]
    if unknown:
        raise RequestError("unknown field; known are instances and parameters", str(unknown[0])[:40])
    query = read_query(request.get("parameters"))
    return model.fields.read_instances(request.get("instances"), settings.max_instances), query


def _describe(model: ServedModel[Any, Any], answer: Answer, query: Query) -> dict[str, Any]:
    """Return an explanation of each instance."""
    about = model.about()
    values = answer.values if query.is_list else answer.values[0]
    names = about["outputs"]
    explanations = []
    for row, numbers in enumerate(answer.outputs.tolist()):
        explanation = {
            "outputs": [names[number] for number in numbers],
            "values": values[..., row, :, :].tolist(),
            "base_values": answer.base_values[row].tolist(),
            "predictions": answer.predictions[row, numbers].tolist(),
        }
        if answer.expected_error is not None:
            errors = answer.expected_error if query.is_list else answer.expected_error[0]
            explanation["expected_error"] = errors[..., row, :].tolist()
        if answer.coefficients is not None:
            explanation["coefficients"] = answer.coefficients[row].tolist()
        explanations.append(explanation)
    return {"explanations": explanations, "players": model.players.names, "scale": about["scale"]}


def _tensors_of(answer: Answer, query: Query) -> dict[str, NDArray[Any]]:
    """Return the outputs of an answer by name."""
    tensors: dict[str, NDArray[Any]] = {
        "values": answer.values if query.is_list else answer.values[0],
        "base_values": answer.base_values,
        "outputs": answer.outputs,
        "predictions": answer.predictions,
    }
    if answer.expected_error is not None:
        tensors["expected_error"] = answer.expected_error if query.is_list else answer.expected_error[0]
    if answer.coefficients is not None:
        tensors["coefficients"] = answer.coefficients
    return tensors


def _describe_tensors(model: ServedModel[Any, Any]) -> dict[str, Any]:
    """Return the inputs and outputs of a model, as the Open Inference Protocol has them."""
    fields = model.fields
    types = {"number": "FP64", "category": "BYTES", "date": "BYTES"}
    inputs: list[dict[str, Any]] = [{"name": "inputs", "datatype": "FP64", "shape": [-1, *fields.shape]}]
    if fields.columns is not None and any(column.kind != "number" for column in fields.columns):
        inputs = [{"name": column.name, "datatype": types[column.kind], "shape": [-1, 1]} for column in fields.columns]
    n, names = model.players.n_players, model.about()["outputs"]
    kind = "FP32" if model.about()["kind"] == "learned" else "FP64"
    outputs = [
        {"name": "values", "datatype": kind, "shape": [-1, n, -1]},
        {"name": "base_values", "datatype": kind, "shape": [-1, -1]},
        {"name": "outputs", "datatype": "INT64", "shape": [-1, -1]},
        {"name": "predictions", "datatype": kind, "shape": [-1, len(names)]},
    ]
    return {"name": model.name, "platform": "fwshapley", "versions": [], "inputs": inputs, "outputs": outputs}


async def _json(content: Mapping[str, Any], answer: Answer) -> Response:
    """Return a response of JSON; a large one is written in a thread."""

    def write() -> Response:
        plain = {name: one.tolist() if isinstance(one, np.ndarray) else one for name, one in content.items()}
        return JSONResponse(plain)

    return write() if answer.values.size < 2**12 else await asyncio.to_thread(write)


async def _answer_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)  # noqa: S101 - it is registered for these
    later = None if error.retry_after is None else {"retry-after": str(error.retry_after)}
    return error_response(str(error), status=error.status, field=error.field, headers=later)


async def _answer_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for these
    return error_response(str(error.detail), status=error.status_code, headers=dict(error.headers or {}))
