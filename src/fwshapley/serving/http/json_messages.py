"""JSON of requests and replies, whose numbers may be arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from starlette.exceptions import HTTPException
from starlette.responses import Response

from fwshapley.serving.request_errors import MALFORMED, RequestError

JSON_TYPE = "application/json"


class JsonResponse(Response):
    """A reply of JSON."""

    media_type = JSON_TYPE

    def render(self, content: object) -> bytes:
        """Return the body."""
        return write_json(content)


def answer_error(error: RequestError | HTTPException) -> JsonResponse:
    """Return an error as both protocols have it, with the field that is wrong.

    Args:
        error: of a request.
    """
    if isinstance(error, HTTPException):
        return JsonResponse({"error": error.detail}, error.status_code, error.headers)
    named = {} if error.field is None else {"field": error.field}
    message = str(error) if error.field is None else f"{error.field}: {error}"
    return JsonResponse({"error": message, **named}, error.status, error.headers)


def write_json(content: object) -> bytes:
    """Return JSON; arrays become lists, and numbers in single precision have as few digits as tell them apart."""
    return orjson.dumps(content, default=_contiguous, option=orjson.OPT_SERIALIZE_NUMPY)


def read_json(body: bytes) -> Any:  # noqa: ANN401 - JSON
    """Return the JSON of a body; raise a RequestError unless it is JSON of finite numbers."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        hint = "; a missing entry is null" if b"NaN" in body else ""
        raise RequestError(f"the body is not JSON: {error}{hint}", status=MALFORMED) from error


def _contiguous(array: object) -> NDArray[Any]:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{type(array).__name__} is not JSON")
    return np.ascontiguousarray(array)
