"""The OpenAPI description of the server: bodies, answers and errors of its routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fwshapley._internal.version import __version__

if TYPE_CHECKING:
    from fwshapley.serving.http.application import Route

Schema = dict[str, Any]

ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}, "field": {"type": "string"}},
}
ERRORS: Mapping[int, str] = {
    400: "The body is malformed.",
    401: "A token is needed.",
    403: "The request comes from a page of another origin.",
    404: "There is no such model.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The type of the body is not accepted.",
    422: "A field of the request is wrong; the answer names it.",
    429: "Too many inputs wait; try again after the time in Retry-After.",
    500: "The server failed.",
    503: "There was no result in time.",
}

NUMBERS: Schema = {"type": "array", "items": {}}
MODEL_LIST: Schema = {"models": {"type": "array", "items": {"type": "string"}}}

PARAMETERS: Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "alpha": {"type": "number", "exclusiveMinimum": 0, "description": "With beta: larger favors small coalitions."},
        "beta": {"type": "number", "exclusiveMinimum": 0, "description": "With alpha: larger favors large coalitions."},
        "weights": {
            "description": "A semivalue, or a list of them: [alpha, beta], or an object with its name. A text is JSON.",
            "oneOf": [{"type": "array", "items": {}}, {"type": "object"}, {"type": "string"}],
        },
        "outputs": {
            "description": "auto, all, predicted, a name, or a list of names and numbers.",
            "oneOf": [{"type": "string"}, {"type": "array", "items": {"type": ["string", "integer"]}}],
        },
        "total": {"type": "string", "enum": ["auto", "raw", "efficient"]},
        "errors": {"type": "boolean", "description": "Also expected errors, of a calibrated explainer."},
        "coefficients": {"type": "boolean", "description": "Also the coefficients that values are computed from."},
    },
}
INSTANCES: Schema = {
    "type": "object",
    "required": ["instances"],
    "additionalProperties": False,
    "properties": {
        "instances": {
            "type": "array",
            "minItems": 1,
            "items": {},
            "description": "Rows of a table as lists or objects, or images as nested lists (channels, height, width).",
        },
        "parameters": PARAMETERS,
    },
}
REFINED: Schema = {
    **INSTANCES,
    "properties": {
        "instances": {**INSTANCES["properties"]["instances"], "maxItems": 1},
        "parameters": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                **{name: PARAMETERS["properties"][name] for name in ("alpha", "beta", "weights")},
                "rounds": {"type": "integer", "minimum": 1, "maximum": 64, "description": "Of 256 predictions each."},
            },
        },
    },
}
TENSOR: Schema = {
    "type": "object",
    "required": ["name", "shape", "datatype"],
    "properties": {
        "name": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "datatype": {"type": "string"},
        "data": {"type": "array", "items": {}},
        "parameters": {"type": "object"},
    },
}
TENSORS: Schema = {
    "type": "object",
    "required": ["inputs"],
    "properties": {
        "id": {"type": "string"},
        "inputs": {"type": "array", "minItems": 1, "items": TENSOR},
        "outputs": {"type": "array", "items": {"type": "object", "required": ["name"]}},
        "parameters": {"type": "object"},
    },
}


def describe_get(tag: str, summary: str, properties: Schema | None = None) -> Schema:
    """Return the OpenAPI description of a route without a body.

    Args:
        tag: the protocol.
        summary: what it returns.
        properties: of the answer.
    """
    schema: Schema = {"type": "object", "properties": properties or {}, "required": list(properties or {})}
    answer = {"description": "The answer.", "content": {"application/json": {"schema": schema}}}
    return {"tags": [tag], "summary": summary, "responses": {"200": answer}}


def _describe_post(tag: str, summary: str, body: Schema, properties: Schema) -> Schema:
    """Return the description of a route that takes a body."""
    content = {"application/json": {"schema": body}}
    return describe_get(tag, summary, properties) | {"requestBody": {"required": True, "content": content}}


PREDICT = _describe_post("v1", "Predictions", INSTANCES, {"predictions": NUMBERS})
EXPLAIN = _describe_post(
    "v1", "Values of the players of each instance", INSTANCES,
    {"explanations": NUMBERS, "players": NUMBERS, "scale": {"type": "string"}},
)  # fmt: skip
REFINE = _describe_post("v1", "Values of an instance, sharpened by sampling: a line of JSON each round", REFINED, {})
REFINE["responses"] = {"200": {"description": "Lines of JSON.", "content": {"application/x-ndjson": {}}}}
INFER = _describe_post(
    "v2", "Values as tensors", TENSORS,
    {"model_name": {"type": "string"}, "outputs": {"type": "array", "items": TENSOR}},
)  # fmt: skip

NAME: Schema = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}


def describe_routes(routes: Iterable[Route]) -> Schema:
    """Return the OpenAPI description of routes, with the errors that all of them may have.

    Args:
        routes: of the server; those that have no description of their own are left out.
    """
    content = {"application/json": {"schema": ERROR}}
    errors = {str(status): {"description": reason, "content": content} for status, reason in ERRORS.items()}
    paths: dict[str, Schema] = {}
    for route in routes:
        if route.about is not None:
            operation = {**route.about, "responses": {**route.about["responses"], **errors}}
            if "{name}" in route.path:
                operation["parameters"] = [NAME]
            paths.setdefault(route.path, {})[route.method.lower()] = operation
    about = "Explanations by weighted Shapley values. Errors name the field of the request that is wrong."
    return {
        "openapi": "3.1.0",
        "info": {"title": "fwshapley", "version": __version__, "description": about},
        "paths": paths,
    }
