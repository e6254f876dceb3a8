"""The FastAPI application of a server: its routes, and what surrounds each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from fwshapley._internal.version import __version__
from fwshapley.serving.http import page_routes, protocol_v1, protocol_v2, refining
from fwshapley.serving.http.guard import SourceGuard, TokenGuard
from fwshapley.serving.http.json_messages import answer_error
from fwshapley.serving.http.request_log import RequestLog
from fwshapley.serving.http.service import Service
from fwshapley.serving.http.tensors import HEADER
from fwshapley.serving.request_errors import RequestError


def make_app(service: Service) -> FastAPI:
    """Return the application, to which routers and middleware can be added.

    Args:
        service: with the models; it is closed when the application ends.
    """

    @asynccontextmanager
    async def close(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    parts = (protocol_v1, protocol_v2, refining, page_routes)
    app = FastAPI(
        title="fwshapley",
        version=__version__,
        description="Explanations by weighted Shapley values. Errors name the field of the request that is wrong.",
        docs_url=None,  # the page has its own, since FastAPI's loads scripts of other servers
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # which each request would look for
        routes=[route for part in parts for route in part.make_router(service).routes],  # include_router's are slower
        exception_handlers=dict.fromkeys((RequestError, HTTPException), _answer_error),
        lifespan=close,
    )
    settings = service.settings
    app.add_middleware(TokenGuard, settings=settings)  # the last one that is added gets requests first
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", HEADER, "X-Request-Id"],
            expose_headers=[HEADER, "Retry-After", "X-Request-Id"],
        )
    app.add_middleware(SourceGuard, settings=settings)
    app.add_middleware(RequestLog, metrics=service.metrics)
    return app


async def _answer_error(_: Request, error: RequestError | HTTPException) -> Response:
    return answer_error(error)
