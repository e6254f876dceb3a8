"""The models of a server with their batches, and how a request becomes an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from fwshapley.serving.batching import MicroBatcher
from fwshapley.serving.input_columns import Rows
from fwshapley.serving.metrics import Metrics
from fwshapley.serving.query import Query
from fwshapley.serving.request_errors import RequestError
from fwshapley.serving.served_model import Answer, ServedModel
from fwshapley.serving.settings import ServerSettings

UNKNOWN = 404
SMALL_BODY = 2**16
"""Bytes of a request that is read without a thread of its own."""

Models = Mapping[str, ServedModel[Any, Any]]

log = logging.getLogger("fwshapley.serving")


class _Entry(NamedTuple):
    """A model and its batches."""

    model: ServedModel[Any, Any]
    batcher: MicroBatcher


class Explained(NamedTuple):
    """The answer to a request, and the model that gave it."""

    model: ServedModel[Any, Any]
    answer: Answer


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
        self._entries = self._make_entries(load())

    @property
    def names(self) -> list[str]:
        """Names of the models."""
        return list(self._entries)

    def find(self, name: str) -> ServedModel[Any, Any]:
        """Return a model by its name; raise a RequestError if there is none."""
        return self._entry(name).model

    async def reload(self) -> None:
        """Load the models again; requests that have been accepted finish with the old ones."""
        try:
            models = await asyncio.to_thread(self._load)
        except Exception:
            self.metrics.reloads.labels("failed").inc()
            log.exception('{"event": "the models could not be loaded again; the old ones stay"}')
            return
        self._entries = self._make_entries(models)
        self.metrics.reloads.labels("done").inc()
        log.info('{"event": "the models were loaded again"}')

    async def explain(
        self, name: str, read: Callable[[ServedModel[Any, Any]], tuple[Rows, Query]], size: int
    ) -> Explained:
        """Return the answer to a request.

        Args:
            name: of the model.
            read: returns inputs and query; it may raise a RequestError.
            size: bytes of the request; large ones are read in a thread.
        """
        model, batcher = self._entry(name)

        def prepare() -> tuple[Any, int, Query]:
            rows, query = read(model)
            return model.prepare(rows, query), len(rows), query

        prepared, count, query = prepare() if size < SMALL_BODY else await asyncio.to_thread(prepare)
        try:
            result = await batcher.submit(prepared, count, model.batch_key(query))
        except RequestError:
            raise
        except (ValueError, TypeError) as error:  # of inputs that only the computation finds to be wrong
            raise RequestError(str(error)[:200], "instances") from error
        finally:
            self.metrics.queued.labels(name).set(batcher.queued)
        self.metrics.rows.labels(name).inc(count)
        work = (prepared, result, query)
        answer = model.answer(*work) if size < SMALL_BODY else await asyncio.to_thread(model.answer, *work)
        return Explained(model, answer)

    def close(self) -> None:
        """Stop the threads, after the requests have finished."""
        self._executor.shutdown(wait=True)

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            raise RequestError(f"there is no model of this name; there are {', '.join(self._entries)}", status=UNKNOWN)
        return entry

    def _make_entries(self, models: Models) -> dict[str, _Entry]:
        return {
            name: _Entry(
                model,
                MicroBatcher(model, self.settings.batches, self._executor, self.metrics.batches.labels(name).observe),
            )
            for name, model in models.items()
        }
