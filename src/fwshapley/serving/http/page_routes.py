"""The routes of the page and its files, and of metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from prometheus_client import CONTENT_TYPE_LATEST

from fwshapley.serving.http.application import Route
from fwshapley.serving.http.messages import Reply, Request, write_json
from fwshapley.serving.http.service import Service
from fwshapley.serving.page import describe_model, read_asset

PAGE_FILES: Mapping[str, tuple[str, str]] = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/mixtures.js": ("mixtures.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/docs": ("docs.html", "text/html; charset=utf-8"),
    "/docs.js": ("docs.js", "text/javascript; charset=utf-8"),
}
"""File and type of each address of the page."""


def make_routes(service: Service) -> Sequence[Route]:
    """Return the routes of the page, of metrics, and of the description of the API.

    Args:
        service: with the models.
    """

    async def show_metrics(_: Request) -> Reply:
        return Reply(service.metrics.write(), media_type=CONTENT_TYPE_LATEST)

    async def show_description(request: Request) -> Reply:
        return Reply(write_json(describe_model(service.find(request.name).model)))

    return [
        Route("GET", "/metrics", show_metrics),
        Route("GET", "/page/models/{name}", show_description),
        *(Route("GET", path, _show_file(asset, kind)) for path, (asset, kind) in PAGE_FILES.items()),
    ]


def _show_file(asset: str, media_type: str) -> Callable[[Request], Awaitable[Reply]]:
    """Return a handler of one file of the package; no path comes from a request."""
    reply = Reply(read_asset(asset), media_type=media_type)

    async def show_file(_: Request) -> Reply:
        return reply

    return show_file
