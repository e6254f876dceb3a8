"""What is checked before a request is answered: its host, its origin, the token, and the size of its body."""

from __future__ import annotations

import asyncio
import hmac
import re

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fwshapley.serving.http.json_messages import answer_error
from fwshapley.serving.http.settings import ServerSettings
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
PORT = re.compile(rb":\d*$")
CLOSE = {"connection": "close"}


class SourceGuard:
    """Refuses requests to forged hosts and from pages of other origins: an ASGI middleware.

    Args:
        app: that answers the others.
        settings: of the server.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._origins = [origin.encode() for origin in settings.origins]
        self._hosts = None if settings.hosts is None else [host.encode() for host in settings.hosts]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; raise a RequestError if it is refused."""
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            host, origin = headers.get(b"host", b"").lower(), headers.get(b"origin")
            if self._hosts is not None and PORT.sub(b"", host) not in self._hosts:
                raise RequestError("this server answers requests to localhost alone", "Host", status=MALFORMED)
            if origin is not None and origin not in self._origins and origin.partition(b"://")[2].lower() != host:
                raise RequestError("pages of other origins may not use this server", "Origin", status=FORBIDDEN)
        await self._app(scope, receive, send)


class TokenGuard:
    """Refuses requests without the token, and bodies that are too large or too slow: an ASGI middleware.

    It comes after preflights have been answered, which browsers send without the token.

    Args:
        app: that answers the others.
        settings: of the server.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app, self._settings = app, settings
        self._token = None if settings.token is None else f"Bearer {settings.token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check(scope)
        except HTTPException as error:
            await answer_error(error)(scope, receive, send)
        else:
            await self._app(scope, self._limit(receive), send)

    def _check(self, scope: Scope) -> None:
        """Raise an error if the head of a request is reason enough to refuse it."""
        headers = dict(scope["headers"])
        is_open = scope["path"] in OPEN_PATHS and scope["method"] in ("GET", "HEAD")
        given = headers.get(b"authorization", b"")
        if self._token is not None and not is_open and not hmac.compare_digest(given, self._token):
            message = "a token is needed: send it as Authorization: Bearer TOKEN"
            raise HTTPException(UNAUTHORIZED, message, {"www-authenticate": "Bearer"})
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._settings.max_body:
            raise self._too_large()

    def _limit(self, receive: Receive) -> Receive:
        """Return a `receive` that raises an error if a body is too large, or takes too long."""
        ends = asyncio.get_running_loop().time() + self._settings.read_seconds
        size, is_complete = 0, False

        async def receive_limited() -> Message:
            nonlocal size, is_complete
            if is_complete:
                return await receive()  # it waits for the client to leave
            try:
                async with asyncio.timeout_at(ends):
                    message = await receive()
            except TimeoutError as error:
                text = f"the body did not arrive within {self._settings.read_seconds:g} s"
                raise HTTPException(TIMED_OUT, text, CLOSE) from error
            is_complete = not message.get("more_body", False)
            size += len(message.get("body", b""))
            if size > self._settings.max_body:
                raise self._too_large()
            return message

        return receive_limited

    def _too_large(self) -> HTTPException:
        return HTTPException(TOO_LARGE, f"the body must have at most {self._settings.max_body:,} bytes", CLOSE)
