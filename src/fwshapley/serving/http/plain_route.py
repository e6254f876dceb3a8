"""Routes of FastAPI that take hardly longer than their functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send


class PlainRoute(APIRoute):
    """A route whose function reads the request itself: FastAPI finds and describes it, but checks and injects nothing.

    The function gets the request, and by name what the path names. GET includes HEAD.
    """

    def __init__(self, path: str, endpoint: Callable[..., Awaitable[Response]], **options: Any) -> None:  # noqa: ANN401 - as in the base class
        super().__init__(path, endpoint, **options)

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            response = await endpoint(Request(scope, receive), **scope["path_params"])
            await response(scope, receive, send)

        self.app = answer

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether the route answers a request."""
        return super().matches(_read_head_as_get(scope))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await super().handle(_read_head_as_get(scope), receive, send)


def _read_head_as_get(scope: Scope) -> Scope:
    """Return a request whose method is not HEAD: the server leaves out the body."""
    return {**scope, "method": "GET"} if scope.get("method") == "HEAD" else scope
