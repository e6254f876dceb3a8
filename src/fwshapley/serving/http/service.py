"""The models of a server, each with the batches of its requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, ParamSpec, TypeVar

from prometheus_client import Counter, Gauge
from starlette.requests import ClientDisconnect, Request

from fwshapley.serving.http.batching import MicroBatcher
from fwshapley.serving.http.json_messages import JSON_TYPE
from fwshapley.serving.http.metrics import Metrics
from fwshapley.serving.http.settings import ServerSettings
from fwshapley.serving.query import Query
from fwshapley.serving.request_errors import NOT_FOUND, OTHER_TYPE, RequestError
from fwshapley.serving.served_model import Answer, ServedModel

SMALL = 2**16
"""Bytes that are read or written at once; with more, other requests would wait for long."""

Models = Mapping[str, ServedModel[Any]]
Options = ParamSpec("Options")
Result = TypeVar("Result")

log = logging.getLogger("fwshapley.serving")


class Served(NamedTuple):
    """A model with its batches and its metrics.

    Attributes:
        model: itself.
        batcher: of its requests.
        rows: counts inputs that were explained.
        queued: inputs that wait.
    """

    model: ServedModel[Any]
    batcher: MicroBatcher
    rows: Counter
    queued: Gauge


class Service:
    """The models of a server.

    Args:
        load: returns the models; called again by `reload`.
        settings: of the server.
        metrics: that count.
    """

    def __init__(self, load: Callable[[], Models], settings: ServerSettings, metrics: Metrics) -> None:
        self._load, self.settings, self.metrics = load, settings, metrics
        self._executor = ThreadPoolExecutor(thread_name_prefix="explain")
        self._served = self._make_served(load())

    @property
    def names(self) -> list[str]:
        """Names of the models."""
        return list(self._served)

    def find(self, name: str) -> Served:
        """Return a model by its name; raise a RequestError if there is none."""
        served = self._served.get(name)
        if served is None:
            message = f"there is no model of this name; there are {', '.join(self._served)}"
            raise RequestError(message, status=NOT_FOUND)
        return served

    async def reload(self) -> None:
        """Load the models again; requests that have been accepted finish with the old ones."""
        try:
            models = await asyncio.to_thread(self._load)
        except Exception:
            self.metrics.reloads.labels("failed").inc()
            log.exception({"event": "the models could not be loaded again; the old ones stay"})
            return
        self._served = self._make_served(models)
        self.metrics.reloads.labels("done").inc()
        log.info({"event": "the models were loaded again"})

    async def answer(self, served: Served, prepared: Any, query: Query) -> Answer:  # noqa: ANN401 - of the model
        """Return the answer to a request, which is computed together with others.

        Args:
            served: the model.
            prepared: inputs, from its `prepare`.
            query: what to compute for them.
        """
        count = len(prepared)
        try:
            answer = await served.batcher.submit(prepared, count, query)
        except RequestError:
            raise
        except (ValueError, TypeError) as error:  # of inputs that only the computation finds to be wrong
            raise RequestError(str(error)[:200], "instances") from error
        finally:
            served.queued.set(served.batcher.queued)
        served.rows.inc(count)
        return answer

    def close(self) -> None:
        """Stop the threads, after the requests have finished."""
        self._executor.shutdown(wait=True)

    def _make_served(self, models: Models) -> dict[str, Served]:
        limits, metrics = self.settings.batches, self.metrics
        served = {}
        for name, model in models.items():
            batcher = MicroBatcher(model, limits, self._executor, metrics.batches.labels(name).observe)
            served[name] = Served(model, batcher, metrics.rows.labels(name), metrics.queued.labels(name))
        return served


async def read_body(request: Request, *others: str) -> bytes:
    """Return the body of a request; raise a RequestError unless its type is JSON or one of some others.

    Clients of the Open Inference Protocol give none.
    """
    headers = request.headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("", JSON_TYPE, *others):
        raise RequestError(f"the type must be {JSON_TYPE}", "Content-Type", status=OTHER_TYPE)
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestError("compressed bodies are not accepted", "Content-Encoding", status=OTHER_TYPE)
    parts: list[bytes] = []
    while True:  # as request.body() does in twice the time
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def work(
    size: int, function: Callable[Options, Result], *arguments: Options.args, **options: Options.kwargs
) -> Result:
    """Call a function, in a thread if there are so many bytes that other requests would wait.

    Args:
        size: number of bytes.
        function: reads or writes them.
        *arguments: of the function.
        **options: of the function.
    """
    if size < SMALL:
        return function(*arguments, **options)
    return await asyncio.to_thread(function, *arguments, **options)
