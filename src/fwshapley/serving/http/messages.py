"""Requests as handlers get them, their replies, and the JSON of both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from fwshapley.serving.request_errors import MALFORMED, RequestError

JSON_TYPE, BYTES_TYPE, LINES_TYPE = "application/json", "application/octet-stream", "application/x-ndjson"


class Request(NamedTuple):
    """A request.

    Attributes:
        method: of HTTP.
        path: of its address.
        name: of the model in the path; empty if it has none.
        headers: by their names in lower case.
        body: all of it, of a POST.
    """

    method: str
    path: str
    name: str
    headers: Mapping[str, str]
    body: bytes = b""


class Reply(NamedTuple):
    """The answer to a request.

    Attributes:
        body: all of it, or parts that are sent when they are there.
        status: of HTTP.
        media_type: of the body.
        headers: more headers.
    """

    body: bytes | AsyncIterator[bytes]
    status: int = 200
    media_type: str = JSON_TYPE
    headers: Mapping[str, str] = {}


def write_error(error: RequestError) -> Reply:
    """Return an error as both protocols have it, with the field that is wrong.

    Args:
        error: of a request.
    """
    named = {} if error.field is None else {"field": error.field}
    message = str(error) if error.field is None else f"{error.field}: {error}"
    return Reply(write_json({"error": message, **named}), error.status, headers=error.headers)


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
