"""KServe's v1 protocol: instances in, predictions or explanations out, all of it JSON."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from fwshapley.serving.http.json_messages import JsonResponse, read_json
from fwshapley.serving.http.openapi import ERRORS, EXPLAIN, MODEL_LIST, PREDICT, describe
from fwshapley.serving.http.plain_route import PlainRoute
from fwshapley.serving.http.service import Service, read_body, work
from fwshapley.serving.query import Query, read_query
from fwshapley.serving.request_errors import MALFORMED, RequestError
from fwshapley.serving.served_model import Answer, ServedModel


def make_router(service: Service) -> APIRouter:
    """Return the routes of the protocol.

    Args:
        service: with the models.
    """
    router = APIRouter(route_class=PlainRoute, tags=["v1"], responses=ERRORS)

    @router.post("/v1/models/{name}:explain", **EXPLAIN)
    async def explain(request: Request, name: str) -> Response:
        model, query, answer = await _ask(service, request, name)
        return await work(answer.values.nbytes, _write_explanations, model, query, answer)

    @router.post("/v1/models/{name}:predict", **PREDICT)
    async def predict(request: Request, name: str) -> Response:
        _, _, answer = await _ask(service, request, name)
        return JsonResponse({"predictions": answer.predictions})

    @router.get("/v1/models", **describe("Names of the models", MODEL_LIST))
    async def list_models(_: Request) -> Response:
        return JsonResponse({"models": service.names})

    @router.get("/v1/models/{name}", **describe("Whether a model is ready"))
    async def show_model(_: Request, name: str) -> Response:
        return JsonResponse({"name": service.find(name).model.name, "ready": True})

    return router


async def _ask(service: Service, request: Request, name: str) -> tuple[ServedModel[Any], Query, Answer]:
    """Return the model of a request, its query and the answer."""
    served = service.find(name)
    body = await read_body(request)
    prepared, query = await work(len(body), _read, served.model, body, service.settings.max_instances)
    return served.model, query, await service.answer(served, prepared, query)


def _read(model: ServedModel[Any], body: bytes, most: int) -> tuple[Any, Query]:
    """Return prepared inputs and the query of a request."""
    instances, parameters = read_question(body)
    query = read_query(parameters)
    return model.read(instances, query, most), query


def read_question(body: bytes) -> tuple[object, object]:
    """Return the instances and the parameters of a request; raise a RequestError if there is anything else.

    Args:
        body: of the request.
    """
    asked = read_json(body)
    if not isinstance(asked, dict):
        raise RequestError('the body must be an object such as {"instances": [...]}', status=MALFORMED)
    unknown = [name for name in asked if name not in ("instances", "parameters")]
    if unknown:
        raise RequestError("unknown field; known are instances and parameters", str(unknown[0])[:40])
    return asked.get("instances"), asked.get("parameters", {})


def _write_explanations(model: ServedModel[Any], query: Query, answer: Answer) -> Response:
    """Return an explanation of each instance."""
    names = model.output_names
    # With one weighting, an instance's values are (players, outputs); with a list of them, weightings come first.
    one = slice(None) if query.is_list else 0
    explanations = []
    for row, numbers in enumerate(answer.outputs.tolist()):
        explanation = {
            "outputs": [names[number] for number in numbers],
            "values": answer.values[one, row],
            "base_values": answer.base_values[row],
            "predictions": answer.predictions[row, numbers],
        }
        if answer.expected_error is not None:
            explanation["expected_error"] = answer.expected_error[one, row]
        if answer.coefficients is not None:
            explanation["coefficients"] = answer.coefficients[row]
        explanations.append(explanation)
    return JsonResponse({"explanations": explanations, "players": model.players.names, "scale": model.scale})
