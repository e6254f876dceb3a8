"""What happens to every request: it gets a number, is counted, and leaves a line in the log."""

from __future__ import annotations

import logging
import re
import secrets
import time
from itertools import count

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fwshapley.serving.http.guard import SECURITY_HEADERS
from fwshapley.serving.http.json_messages import answer_error
from fwshapley.serving.http.metrics import Metrics
from fwshapley.serving.request_errors import RequestError

CRASHED = 500
NO_ANSWER = 499
"""Status in logs and metrics of a request whose client left before there was an answer."""

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

log = logging.getLogger("fwshapley.serving")


class RequestLog:
    """Numbers, counts and logs requests, secures their replies, and answers where the server fails: an ASGI middleware.

    Args:
        app: that answers requests.
        metrics: that count.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics
        self._start, self._numbers = secrets.token_hex(4), count(1)  # of requests without a number of their own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        request_id = self._number(scope)
        status = NO_ANSWER

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                number = (b"x-request-id", request_id.encode())
                message["headers"] = [*message["headers"], number, *SECURITY_HEADERS]
            await send(message)

        self._metrics.running.inc()
        try:
            await self._app(scope, receive, send_marked)
        except RequestError as error:
            await answer_error(error)(scope, receive, send_marked)
        except ClientDisconnect:
            pass
        except Exception:
            log.exception({"event": "the server failed", "request_id": request_id})
            if status != NO_ANSWER:  # the connection is closed, so that half of a reply is not taken for all of it
                raise
            message = "the server failed; its log has the reason under this X-Request-Id"
            await answer_error(RequestError(message, status=CRASHED))(scope, receive, send_marked)
        finally:
            seconds = time.perf_counter() - began
            self._metrics.running.dec()
            self._metrics.count(getattr(scope.get("route"), "path", "other"), status, seconds)
            facts = {"request_id": request_id, "method": scope["method"], "path": scope["path"][:200], "status": status}
            log.info({**facts, "milliseconds": round(1000 * seconds, 2)})

    def _number(self, scope: Scope) -> str:
        """Return the number that a client gave its request, or a new one."""
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        return given if REQUEST_ID.fullmatch(given) else f"{self._start}-{next(self._numbers)}"
