"""The process of a server: sockets, signals, and closing of idle connections."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import uvicorn

from fwshapley.serving.http.application import make_app
from fwshapley.serving.http.connection import HttpConnection
from fwshapley.serving.http.json_messages import write_json
from fwshapley.serving.http.metrics import Metrics
from fwshapley.serving.http.service import Models, Service
from fwshapley.serving.http.settings import ServerSettings

TICKS_PER_SECOND = 10


class HttpServer(uvicorn.Server):
    """Serves until SIGTERM or Ctrl-C, then finishes what it has accepted; SIGHUP loads the models again.

    Args:
        load: returns the models.
        settings: of the server.
        when_ready: is told the address.
    """

    def __init__(
        self, load: Callable[[], Models], settings: ServerSettings, when_ready: Callable[[str], None] = lambda _: None
    ) -> None:
        self._settings, self._when_ready = settings, when_ready
        self._silent: dict[tuple[Any, Any], float] = {}  # connections after their last request, and since when
        self.service = Service(load, settings, Metrics())
        self.app = make_app(self.service)
        super().__init__(
            uvicorn.Config(
                self.app,
                host=settings.host,
                port=settings.port,
                http=HttpConnection,
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                ws="none",
                limit_concurrency=settings.max_connections,
                timeout_graceful_shutdown=int(settings.shutdown_seconds),
            )
        )

    async def startup(self, sockets: Any = None) -> None:  # noqa: ANN401 - as in the base class
        """Listen, and tell the address."""
        await super().startup(sockets)
        if not self.started:
            return
        gc.freeze()  # what is loaded need not be looked through again and again
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            reloads: set[asyncio.Task[None]] = set()

            def reload() -> None:
                task = asyncio.ensure_future(self.service.reload())
                reloads.add(task)
                task.add_done_callback(reloads.discard)

            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        self._when_ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def on_tick(self, counter: int) -> bool:
        """Close connections that send no whole head of a request in time, once a second."""
        if counter % TICKS_PER_SECOND == 0:
            now = time.monotonic()
            connections: set[Any] = set(self.server_state.connections)
            waiting = {(each, each.cycle) for each in connections if _is_waiting(each)}
            self._silent = {each: self._silent.get(each, now) for each in waiting}
            for (connection, _), since in self._silent.items():
                if now - since > self._settings.read_seconds:
                    connection.transport.close()
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop by signals, without raising them again in the end: whoever stops the server gets exit code 0."""
        if threading.current_thread() is not threading.main_thread():  # which alone gets signals
            yield
            return
        kinds = (signal.SIGTERM, signal.SIGINT)
        before = {kind: signal.signal(kind, self.handle_exit) for kind in kinds}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


def log_as_json(level: int = logging.INFO) -> None:
    """Write the log of the server to standard error, one JSON object a line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    for name in ("fwshapley.serving", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


class _JsonLines(logging.Formatter):
    """Formats a record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts = record.msg if isinstance(record.msg, dict) else {"event": record.getMessage()}
        line = {"time": _spell_time(record.created), "level": record.levelname.lower(), **facts}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return write_json(line).decode()


def _spell_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _is_waiting(connection: Any) -> bool:  # noqa: ANN401 - a protocol of uvicorn
    """Whether a connection has no request that is being answered."""
    return connection.cycle is None or bool(connection.cycle.response_complete)
