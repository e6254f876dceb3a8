"""What surrounds every request: its number, limits, the token, security headers, metrics and one line of the log."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fwshapley.serving.metrics import Metrics
from fwshapley.serving.request_errors import MALFORMED, TOO_LARGE, RequestError
from fwshapley.serving.settings import ServerSettings

UNAUTHORIZED, FORBIDDEN, TIMED_OUT, CRASHED = 401, 403, 408, 500
NO_ANSWER = 499
"""Status in logs and metrics of a request whose client left before there was an answer."""

OPEN_PATHS = ("/", "/page.js", "/mixtures.js", "/page.css", "/v2/health/live", "/v2/health/ready")
"""Paths that need no token: they tell nothing of the models."""

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)

log = logging.getLogger("fwshapley.serving")


class Guard:
    """An ASGI application around another one.

    Args:
        app: that answers requests.
        settings: of the server.
        metrics: that count.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass on what is none."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        given = headers.get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        scope["state"] = {**scope.get("state", {}), "request_id": request_id}
        told: MutableMapping[str, Any] = {"status": NO_ANSWER}

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                told["status"] = message["status"]
                named = [(b"x-request-id", request_id.encode()), *HEADERS]
                message = {**message, "headers": [*message["headers"], *named]}
            await send(message)

        refusal = self._refuse(scope, headers)
        with self.metrics.running.track_inprogress():
            try:
                if refusal is None:
                    await self.app(scope, self._limited(receive), send_marked)
                else:
                    await refusal(scope, receive, send_marked)
            except Exception:
                is_begun = told["status"] != NO_ANSWER
                told["status"] = CRASHED
                log.exception(_line(scope, told, request_id, time.perf_counter() - began))
                if is_begun:
                    raise
                message = "the server failed; its log has the reason under this X-Request-Id"
                await error_response(message, status=CRASHED)(scope, receive, send_marked)
            finally:
                seconds = time.perf_counter() - began
                route = getattr(scope.get("route"), "path", "other")
                self.metrics.requests.labels(route, str(told["status"])).inc()
                self.metrics.seconds.labels(route).observe(seconds)
        log.info(_line(scope, told, request_id, seconds))

    def _refuse(self, scope: Scope, headers: MutableMapping[str, str]) -> JSONResponse | None:
        """Return the answer to a request that is refused for its head alone."""
        hosts = self.settings.hosts
        host = headers.get("host", "").lower()
        if hosts is not None and re.sub(r":\d*$", "", host) not in hosts:
            return error_response("this server answers requests to localhost alone", status=MALFORMED, field="Host")
        origin = headers.get("origin")
        if origin is not None and origin not in self.settings.origins and origin.partition("://")[2].lower() != host:
            return error_response("pages of other origins may not use this server", status=FORBIDDEN, field="Origin")
        is_open = scope["path"] in OPEN_PATHS and scope["method"] in ("GET", "HEAD")
        is_preflight = scope["method"] == "OPTIONS" and "access-control-request-method" in headers
        # Browsers send a preflight without the token; CORSMiddleware answers it.
        is_allowed = is_open or (is_preflight and origin in self.settings.origins)
        if self.settings.token is not None and not is_allowed:
            expected = f"Bearer {self.settings.token}".encode()
            if not hmac.compare_digest(headers.get("authorization", "").encode("latin-1"), expected):
                message = "a token is needed: send it as Authorization: Bearer TOKEN"
                return error_response(message, status=UNAUTHORIZED, headers={"www-authenticate": "Bearer"})
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self.settings.max_body:
            return error_response(
                f"the body must have at most {self.settings.max_body:,} bytes", status=TOO_LARGE,
                headers={"connection": "close"},
            )  # fmt: skip
        return None

    def _limited(self, receive: Receive) -> Receive:
        """Return a `receive` that ends after too many bytes, or too much time."""
        deadline = asyncio.get_running_loop().time() + self.settings.read_seconds
        state = {"bytes": 0, "complete": False}

        async def receive_limited() -> Message:
            if state["complete"]:
                return await receive()  # it waits for the client to leave
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError as error:
                message_text = f"the body did not arrive within {self.settings.read_seconds:g} s"
                raise RequestError(message_text, status=TIMED_OUT) from error
            state["bytes"] += len(message.get("body", b""))
            state["complete"] = not message.get("more_body", False)
            if state["bytes"] > self.settings.max_body:
                raise RequestError(f"the body must have at most {self.settings.max_body:,} bytes", status=TOO_LARGE)
            return message

        return receive_limited


def error_response(
    message: str, *, status: int, field: str | None = None, headers: dict[str, str] | None = None
) -> JSONResponse:
    """Return an error as both protocols have it, with the field that is wrong.

    Args:
        message: what was wrong.
        status: of HTTP.
        field: of the request.
        headers: more headers.
    """
    named = {} if field is None else {"field": field}
    return JSONResponse({"error": message if field is None else f"{field}: {message}", **named}, status, headers)


def _line(scope: Scope, told: MutableMapping[str, Any], request_id: str, seconds: float) -> str:
    """Return what the log says of a request, as JSON; it has nothing of its contents."""
    facts = {
        "request_id": request_id,
        "method": scope["method"],
        "path": scope["path"][:200],
        "status": told["status"],
        "milliseconds": round(1000 * seconds, 2),
    }
    return json.dumps({**facts, **scope["state"].get("log", {})})
