"""Requests that wait for the same model are computed at once, within limits of time, size and number.

While a batch is computed, the next one collects. So an idle server answers at once, and a busy one computes large
batches: `delay` is how long an idle one also waits for company.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from fwshapley.serving.query import Query
from fwshapley.serving.request_errors import BUSY, LATE, RequestError
from fwshapley.serving.served_model import Answer, ServedModel

LATER = {"retry-after": "1"}


@dataclass(frozen=True)
class BatchLimits:
    """How requests become batches.

    Attributes:
        rows: most inputs of a batch; a larger request is a batch of its own.
        delay: seconds that an idle server waits for more requests.
        queued: most inputs that wait; further requests are refused with 429.
        seconds: that a request may wait and be computed for.
    """

    rows: int = 256
    delay: float = 0.0
    queued: int = 4096
    seconds: float = 60.0


@dataclass(eq=False, slots=True)
class _Job:
    """A request that waits."""

    prepared: Any
    count: int
    query: Query
    answer: asyncio.Future[Answer]


class MicroBatcher:
    """Computes the requests of one model, one batch at a time.

    Args:
        model: that computes.
        limits: of batches.
        executor: runs the computation.
        observe: is told the number of inputs of each batch.
    """

    def __init__(
        self, model: ServedModel[Any], limits: BatchLimits, executor: Executor, observe: Callable[[float], None]
    ) -> None:
        self.model, self.limits = model, limits
        self._executor, self._observe = executor, observe
        self._waiting: deque[_Job] = deque()
        self._worker: asyncio.Task[None] | None = None
        self.queued = 0

    async def submit(self, prepared: Any, count: int, query: Query) -> Answer:  # noqa: ANN401 - of the model
        """Return the answer to a request; raise a RequestError if too many wait, or it takes too long.

        Args:
            prepared: inputs, from the model.
            count: number of inputs.
            query: what to compute for them.
        """
        if self._waiting and self.queued + count > self.limits.queued:
            raise RequestError(f"{self.queued:,} inputs wait already: try again later", status=BUSY, headers=LATER)
        loop = asyncio.get_running_loop()
        job = _Job(prepared, count, query, loop.create_future())
        self._waiting.append(job)
        self.queued += count
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        late = loop.call_later(self.limits.seconds, self._give_up, job)
        try:
            return await job.answer
        finally:
            late.cancel()
            if job.answer.cancelled():  # its client has left
                self._forget(job)

    async def _work(self) -> None:
        """Compute batches until nobody waits."""
        if self.limits.delay:
            await asyncio.sleep(self.limits.delay)
        while self._waiting:
            jobs = self._take()
            self._observe(sum(job.count for job in jobs))
            await self._run(jobs)

    async def _run(self, jobs: Sequence[_Job]) -> None:
        """Compute a batch; if it fails, each of its requests alone, so that one cannot fail the others."""
        requests = [(job.prepared, job.query) for job in jobs]
        try:
            answers = await asyncio.get_running_loop().run_in_executor(self._executor, self.model.answer, requests)
        except Exception as error:  # noqa: BLE001 - it is the answer to the request
            if len(jobs) == 1:
                if not jobs[0].answer.done():
                    jobs[0].answer.set_exception(error)
                return
            for job in jobs:
                await self._run([job])
            return
        for job, answer in zip(jobs, answers, strict=True):
            if not job.answer.done():
                job.answer.set_result(answer)

    def _take(self) -> list[_Job]:
        """Remove the first request and those that can be computed with it, in order."""
        key = self.model.batch_key(self._waiting[0].query)
        jobs: list[_Job] = []
        others: list[_Job] = []
        count = 0
        while self._waiting:
            job = self._waiting.popleft()
            if self.model.batch_key(job.query) != key:
                others.append(job)
            elif jobs and count + job.count > self.limits.rows:
                others.append(job)
                break
            else:
                jobs.append(job)
                count += job.count
        self._waiting.extendleft(reversed(others))
        self.queued -= count
        return jobs

    def _give_up(self, job: _Job) -> None:
        """Answer a request that is late."""
        self._forget(job)
        if not job.answer.done():
            message = f"no result within {self.limits.seconds:g} s"
            job.answer.set_exception(RequestError(message, status=LATE, headers=LATER))

    def _forget(self, job: _Job) -> None:
        """Remove a request that still waits."""
        if job in self._waiting:
            self._waiting.remove(job)
            self.queued -= job.count
