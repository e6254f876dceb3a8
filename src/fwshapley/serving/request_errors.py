"""Errors that a client caused, with the field of the request that is wrong."""

from __future__ import annotations

from collections.abc import Mapping

MALFORMED, NOT_FOUND, TOO_LARGE, OTHER_TYPE, INVALID, BUSY, LATE = 400, 404, 413, 415, 422, 429, 503


class RequestError(ValueError):
    """A request that is answered with an error.

    Args:
        message: what was wrong, and what is expected.
        field: of the request, such as "instances[3].age".
        status: of HTTP.
        headers: of the reply.
    """

    def __init__(
        self, message: str, field: str | None = None, *, status: int = INVALID, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.field, self.status, self.headers = field, status, headers or {}
