"""The routes of the page and its files, and of metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from fwshapley.serving.http.json_messages import JsonResponse
from fwshapley.serving.http.plain_route import PlainRoute
from fwshapley.serving.http.service import Service
from fwshapley.serving.page import describe_model, read_asset

PAGE_FILES: Mapping[str, tuple[str, str]] = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/mixtures.js": ("mixtures.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
    "/docs": ("docs.html", "text/html"),
    "/docs.js": ("docs.js", "text/javascript"),
}
"""File and type of each address of the page."""


def make_router(service: Service) -> APIRouter:
    """Return the routes of the page, and of metrics.

    Args:
        service: with the models.
    """
    router = APIRouter(route_class=PlainRoute, include_in_schema=False)

    @router.get("/metrics")
    async def show_metrics(_: Request) -> Response:
        return Response(service.metrics.write(), media_type=CONTENT_TYPE_LATEST)

    @router.get("/page/models/{name}")
    async def show_description(_: Request, name: str) -> Response:
        return JsonResponse(describe_model(service.find(name).model))

    for path, (asset, kind) in PAGE_FILES.items():
        router.add_api_route(path, _show_file(asset, kind))
    return router


def _show_file(asset: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler of one file of the package; no path comes from a request."""
    content = read_asset(asset)

    async def show_file(_: Request) -> Response:
        return Response(content, media_type=media_type)

    return show_file
