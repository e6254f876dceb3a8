"""What is checked before a request is read: its host, its origin, the token, and the size of its body."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable
from typing import Any

from fwshapley.serving.http.messages import Request
from fwshapley.serving.http.settings import ServerSettings
from fwshapley.serving.http.tensors import HEADER
from fwshapley.serving.request_errors import MALFORMED, TOO_LARGE, RequestError

UNAUTHORIZED, FORBIDDEN, TIMED_OUT = 401, 403, 408

OPEN_PATHS = ("/", "/page.js", "/mixtures.js", "/page.css", "/v2/health/live", "/v2/health/ready")
"""Paths that need no token: they tell nothing of the models."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
PORT = re.compile(r":\d*$")
PREFLIGHT = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": f"Authorization, Content-Type, {HEADER}, X-Request-Id",
    "access-control-max-age": "600",
}
"""What pages of allowed origins may send."""

CLOSE = {"connection": "close"}


class ClientLeftError(Exception):
    """The client left before its request was complete."""


class Guard:
    """Refuses requests for their head alone, and reads no more of a body than the settings allow.

    Args:
        settings: of the server.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self._hosts = settings.hosts
        self._token = None if settings.token is None else f"Bearer {settings.token}".encode()

    def check(self, request: Request) -> None:
        """Raise a RequestError if the head of a request is reason enough to refuse it.

        Args:
            request: without its body.
        """
        headers = request.headers
        host = headers.get("host", "").lower()
        if self._hosts is not None and PORT.sub("", host) not in self._hosts:
            raise RequestError("this server answers requests to localhost alone", "Host", status=MALFORMED)
        origin = headers.get("origin")
        if origin is not None and origin not in self.settings.origins and origin.partition("://")[2].lower() != host:
            raise RequestError("pages of other origins may not use this server", "Origin", status=FORBIDDEN)
        is_open = request.path in OPEN_PATHS and request.method in ("GET", "HEAD")
        if self._token is not None and not is_open:
            given = headers.get("authorization", "").encode("latin-1")
            if not hmac.compare_digest(given, self._token):
                message = "a token is needed: send it as Authorization: Bearer TOKEN"
                raise RequestError(message, status=UNAUTHORIZED, headers={"www-authenticate": "Bearer"})
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self.settings.max_body:
            raise self._too_large()

    def allow_origin(self, request: Request) -> dict[str, str]:
        """Return the headers that let a page of another origin use the reply, if it may; else none.

        Args:
            request: from a page, if it has an origin.
        """
        origin = request.headers.get("origin")
        if origin is None or origin not in self.settings.origins:
            return {}
        shown = f"{HEADER}, Retry-After, X-Request-Id"
        return {"access-control-allow-origin": origin, "access-control-expose-headers": shown, "vary": "Origin"}

    async def read_body(self, receive: Callable[[], Awaitable[Any]]) -> bytes:
        """Return the body of a request; raise a RequestError if it is too large, or takes too long."""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.settings.read_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientLeftError
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self.settings.max_body:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return parts[0] if len(parts) == 1 else b"".join(parts)
        except TimeoutError as error:
            message = f"the body did not arrive within {self.settings.read_seconds:g} s"
            raise RequestError(message, status=TIMED_OUT, headers=CLOSE) from error

    def _too_large(self) -> RequestError:
        message = f"the body must have at most {self.settings.max_body:,} bytes"
        return RequestError(message, status=TOO_LARGE, headers=CLOSE)
