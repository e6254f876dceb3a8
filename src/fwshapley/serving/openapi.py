"""What the OpenAPI description of the server says of bodies, answers and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

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


def answers(properties: Schema) -> dict[int | str, dict[str, Any]]:
    """Return the description of an answer with these properties."""
    schema: Schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {200: {"description": "The answer.", "content": {"application/json": {"schema": schema}}}}


def _posts(body: Schema, properties: Schema) -> dict[str, Any]:
    """Return the options of a route that takes a body."""
    content = {"application/json": {"schema": body}}
    return {"responses": answers(properties), "openapi_extra": {"requestBody": {"required": True, "content": content}}}


PREDICT = _posts(INSTANCES, {"predictions": NUMBERS})
EXPLAIN = _posts(INSTANCES, {"explanations": NUMBERS, "players": NUMBERS, "scale": {"type": "string"}})
INFER = _posts(TENSORS, {"model_name": {"type": "string"}, "outputs": {"type": "array", "items": TENSOR}})


def add_errors(app: FastAPI) -> None:
    """Let the OpenAPI description of an application have the errors of all routes."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            for path in described["paths"].values():
                for operation in path.values():
                    for status, reason in ERRORS.items():
                        content = {"application/json": {"schema": ERROR}}
                        operation["responses"][str(status)] = {"description": reason, "content": content}
            described.pop("components", None)  # FastAPI's own errors, which do not occur
            app.openapi_schema = described
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]  # as FastAPI's documentation tells
