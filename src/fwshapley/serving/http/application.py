"""The ASGI application of a server: finds the handler of a request, sends its reply, counts it, and logs a line."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from fwshapley.serving.http.guard import PREFLIGHT, SECURITY_HEADERS, ClientLeftError, Guard
from fwshapley.serving.http.messages import Reply, Request, write_error
from fwshapley.serving.http.metrics import Metrics
from fwshapley.serving.http.settings import ServerSettings
from fwshapley.serving.request_errors import NOT_FOUND, RequestError

NOT_ALLOWED, CRASHED = 405, 500
NO_ANSWER = 499
"""Status in logs and metrics of a request whose client left before there was an answer."""

OF_A_MODEL = re.compile(r"(/(?:v1|v2|page)/models/)([^/:]+)(.*)")
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

log = logging.getLogger("fwshapley.serving")


class Route(NamedTuple):
    """What answers the requests of a path.

    Attributes:
        method: GET, which includes HEAD, or POST.
        path: with {name} for the name of a model.
        handle: returns the reply; it may raise a RequestError.
        about: of the route in the OpenAPI description; None leaves it out.
    """

    method: str
    path: str
    handle: Callable[[Request], Awaitable[Reply]]
    about: Mapping[str, Any] | None = None


class Application:
    """An ASGI application of routes. It is one function call deep, since it runs for every request.

    Args:
        routes: in any order.
        settings: of the server.
        metrics: that count.
    """

    def __init__(self, routes: Sequence[Route], settings: ServerSettings, metrics: Metrics) -> None:
        self._guard, self._metrics = Guard(settings), metrics
        self._start, self._numbers = secrets.token_hex(4), count(1)  # of requests without a number of their own
        self._routes: dict[str, dict[str, Route]] = {}
        for route in routes:
            self._routes.setdefault(route.path, {})[route.method] = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        began = time.perf_counter()
        template, name = _split_path(scope["path"])
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        request = Request(scope["method"], scope["path"], name, headers)
        given = headers.get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else f"{self._start}-{next(self._numbers)}"
        status = NO_ANSWER
        self._metrics.running.inc()
        try:
            reply = await self._reply(request, template, receive, request_id)
            status = reply.status
            more = {"x-request-id": request_id, **self._guard.allow_origin(request)}
            await _send(reply, more, receive, send)
        except ClientLeftError:
            pass
        finally:
            seconds = time.perf_counter() - began
            self._metrics.running.dec()
            self._metrics.count(template if template in self._routes else "other", status, seconds)
            facts = {"request_id": request_id, "method": request.method, "path": request.path[:200], "status": status}
            log.info({**facts, "milliseconds": round(1000 * seconds, 2)})

    async def _reply(self, request: Request, template: str, receive: Receive, request_id: str) -> Reply:
        """Return the reply of the handler of a request, or the error that it raised."""
        try:
            is_question = request.method == "OPTIONS" and "access-control-request-method" in request.headers
            if is_question and self._guard.allow_origin(request):  # before the token, since browsers ask without it
                return Reply(b"", headers=PREFLIGHT)
            self._guard.check(request)
            route = self._find(request, template)
            if request.method == "POST":
                request = request._replace(body=await self._guard.read_body(receive))
            return await route.handle(request)
        except RequestError as error:
            return write_error(error)
        except ClientLeftError:
            raise
        except Exception:
            log.exception({"event": "the server failed", "request_id": request_id})
            message = "the server failed; its log has the reason under this X-Request-Id"
            return write_error(RequestError(message, status=CRASHED))

    def _find(self, request: Request, template: str) -> Route:
        """Return the route of a request; raise a RequestError if there is none."""
        methods = self._routes.get(template)
        if methods is None:
            raise RequestError("there is nothing at this address", status=NOT_FOUND)
        route = methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = {"allow": ", ".join(methods)}
            raise RequestError(f"{request.method} is not allowed here", status=NOT_ALLOWED, headers=allowed)
        return route


async def _send(reply: Reply, more: Mapping[str, str], receive: Receive, send: Send) -> None:
    """Send a reply; one in parts ends when the client leaves."""
    body = reply.body
    named = {"content-type": reply.media_type, **reply.headers, **more}
    if isinstance(body, bytes):
        named["content-length"] = str(len(body))
    headers = [(name.encode(), value.encode("latin-1")) for name, value in named.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": [*headers, *SECURITY_HEADERS]})
    if isinstance(body, bytes):
        await send({"type": "http.response.body", "body": body})
        return
    leaving = asyncio.ensure_future(receive())  # it returns when the client leaves
    try:
        async for part in body:
            await send({"type": "http.response.body", "body": part, "more_body": True})
            if leaving.done():
                break
        await send({"type": "http.response.body", "body": b""})
    finally:
        leaving.cancel()
        await body.aclose()  # type: ignore[attr-defined]  # it is a generator


def _split_path(path: str) -> tuple[str, str]:
    """Return a path with {name} for the name of a model, and that name."""
    match = OF_A_MODEL.fullmatch(path)
    return (path, "") if match is None else (f"{match[1]}{{name}}{match[3]}", match[2])
