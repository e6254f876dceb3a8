"""Errors that a client caused, with the field of the request that is wrong."""

from __future__ import annotations

MALFORMED, OTHER_TYPE, TOO_LARGE, INVALID, BUSY, LATE = 400, 415, 413, 422, 429, 503


class RequestError(ValueError):
    """A request that is answered with an error.

    Args:
        message: what was wrong, and what is expected.
        field: of the request, such as "instances[3].age".
        status: of HTTP.
        retry_after: seconds after which the client may try again.
    """

    def __init__(
        self, message: str, field: str | None = None, *, status: int = INVALID, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.field, self.status, self.retry_after = field, status, retry_after
