"""The OpenAPI description of the server: bodies, answers and errors of its routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import StreamingResponse

Schema = dict[str, Any]

ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}, "field": {"type": "string"}},
}
REASONS: Mapping[int, str] = {
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


def describe(summary: str, properties: Schema | None = None, body: Schema | None = None) -> Schema:
    """Return the OpenAPI description of a route, as options of FastAPI.

    Args:
        summary: what it returns.
        properties: of the answer.
        body: of the request; None if it has none.
    """
    schema: Schema = {"type": "object", "properties": properties or {}, "required": list(properties or {})}
    about: Schema = {"summary": summary, "responses": {200: _json("The answer.", schema)}}
    if body is not None:
        about["openapi_extra"] = {"requestBody": {"required": True, **_json("The question.", body)}}
    return about


def _json(description: str, schema: Schema) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


ERRORS: dict[int | str, Schema] = {status: _json(reason, ERROR) for status, reason in REASONS.items()}
PREDICT = describe("Predictions", {"predictions": NUMBERS}, INSTANCES)
EXPLAIN = describe(
    "Values of the players of each instance",
    {"explanations": NUMBERS, "players": NUMBERS, "scale": {"type": "string"}}, INSTANCES,
)  # fmt: skip
REFINE = describe("Values of an instance, sharpened by sampling: a line of JSON each round", {}, REFINED)
REFINE["responses"] = {200: {"description": "Lines of JSON.", "content": {"application/x-ndjson": {}}}}
REFINE["response_class"] = StreamingResponse  # which is not JSON
INFER = describe(
    "Values as tensors",
    {"model_name": {"type": "string"}, "outputs": {"type": "array", "items": TENSOR}}, TENSORS,
)  # fmt: skip
