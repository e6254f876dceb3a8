"""Requests that wait for the same model are computed at once, within limits of time, size and number.

While a batch is computed, the next one collects. So an idle server answers at once, and a busy one computes large
batches: `delay` is how long an idle one also waits for company.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from fwshapley.serving.request_errors import BUSY, LATE, RequestError
from fwshapley.serving.served_model import ServedModel


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


@dataclass(eq=False)
class _Job:
    """A request that waits."""

    prepared: Any
    count: int
    key: Hashable
    result: asyncio.Future[Any]


class MicroBatcher:
    """Computes the requests of one model, one batch at a time.

    Args:
        model: that computes.
        limits: of batches.
        executor: runs the computation.
        observe: is told the number of inputs of each batch.
    """

    def __init__(self, model: ServedModel[Any, Any], limits: BatchLimits, executor: Executor, observe: Any) -> None:  # noqa: ANN401 - a function
        self.model, self.limits = model, limits
        self._executor, self._observe = executor, observe
        self._waiting: deque[_Job] = deque()
        self._worker: asyncio.Task[None] | None = None

    @property
    def queued(self) -> int:
        """Number of inputs that wait."""
        return sum(job.count for job in self._waiting)

    async def submit(self, prepared: Any, count: int, key: Hashable) -> Any:  # noqa: ANN401 - of the model
        """Return the result of a request; raise a RequestError if too many wait, or it takes too long.

        Args:
            prepared: inputs, from the model.
            count: number of inputs.
            key: what it must have in common with the others of a batch.
        """
        if self._waiting and self.queued + count > self.limits.queued:
            raise RequestError(f"{self.queued:,} inputs wait already: try again later", status=BUSY, retry_after=1)
        job = _Job(prepared, count, key, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await job.result
        except TimeoutError as error:
            seconds = f"{self.limits.seconds:g} s"
            raise RequestError(f"no result within {seconds}", status=LATE, retry_after=1) from error
        finally:
            if job in self._waiting:  # its client has left, or it is late
                self._waiting.remove(job)

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
        loop = asyncio.get_running_loop()
        prepared = [job.prepared for job in jobs]
        try:
            results = await loop.run_in_executor(self._executor, self.model.compute, prepared, jobs[0].key)
        except Exception as error:  # noqa: BLE001 - it is the answer to the request
            if len(jobs) == 1:
                if not jobs[0].result.done():
                    jobs[0].result.set_exception(error)
                return
            for job in jobs:
                await self._run([job])
            return
        for job, result in zip(jobs, results, strict=True):
            if not job.result.done():
                job.result.set_result(result)

    def _take(self) -> list[_Job]:
        """Remove the first request and those that can be computed with it, in order."""
        first = self._waiting.popleft()
        jobs, count = [first], first.count
        for job in list(self._waiting):
            if count + job.count > self.limits.rows:
                break
            if job.key == first.key:
                self._waiting.remove(job)
                jobs.append(job)
                count += job.count
        return jobs
