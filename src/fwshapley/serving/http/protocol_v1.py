"""KServe's v1 protocol: instances in, predictions or explanations out, all of it JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fwshapley.serving.http.application import Route
from fwshapley.serving.http.messages import Reply, Request, read_json, write_json
from fwshapley.serving.http.openapi import EXPLAIN, MODEL_LIST, PREDICT, describe_get
from fwshapley.serving.http.service import Service, check_type, work
from fwshapley.serving.query import Query, read_query
from fwshapley.serving.request_errors import MALFORMED, RequestError
from fwshapley.serving.served_model import Answer, ServedModel


def make_routes(service: Service) -> Sequence[Route]:
    """Return the routes of the protocol.

    Args:
        service: with the models.
    """

    async def list_models(_: Request) -> Reply:
        return Reply(write_json({"models": service.names}))

    async def show_model(request: Request) -> Reply:
        return Reply(write_json({"name": service.find(request.name).model.name, "ready": True}))

    async def predict(request: Request) -> Reply:
        _, _, answer = await _ask(service, request)
        return Reply(write_json({"predictions": answer.predictions}))

    async def explain(request: Request) -> Reply:
        model, query, answer = await _ask(service, request)
        return Reply(await work(answer.values.nbytes, _write_explanations, model, query, answer))

    return [
        Route("GET", "/v1/models", list_models, describe_get("v1", "Names of the models", MODEL_LIST)),
        Route("GET", "/v1/models/{name}", show_model, describe_get("v1", "Whether a model is ready")),
        Route("POST", "/v1/models/{name}:predict", predict, PREDICT),
        Route("POST", "/v1/models/{name}:explain", explain, EXPLAIN),
    ]


async def _ask(service: Service, request: Request) -> tuple[ServedModel[Any], Query, Answer]:
    """Return the model of a request, its query and the answer."""
    served = service.find(request.name)
    check_type(request)
    most = service.settings.max_instances
    prepared, query = await work(len(request.body), _read, served.model, request.body, most)
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


def _write_explanations(model: ServedModel[Any], query: Query, answer: Answer) -> bytes:
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
    return write_json({"explanations": explanations, "players": model.players.names, "scale": model.scale})
