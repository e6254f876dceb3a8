"""An explanation that is refined while its client watches: rounds of sampled coalitions, each of which sharpens it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from fastapi import APIRouter
from jaxtyping import Float64
from numpy import ndarray
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fwshapley.semivalues import Semivalue
from fwshapley.serving.http.json_messages import write_json
from fwshapley.serving.http.openapi import ERRORS, REFINE
from fwshapley.serving.http.plain_route import PlainRoute
from fwshapley.serving.http.protocol_v1 import read_question
from fwshapley.serving.http.service import Service, read_body
from fwshapley.serving.input_columns import Rows
from fwshapley.serving.query import read_query
from fwshapley.serving.request_errors import BUSY, RequestError
from fwshapley.serving.served_model import LearnedModel, ServedModel

if TYPE_CHECKING:
    from fwshapley.explanation.learned.feature_explainer import FeatureExplainer

CALLS = 256
"""Predictions of the surrogate in a round."""

ROUNDS, MOST_ROUNDS = 8, 64
PARAMETERS = ("alpha", "beta", "weights", "rounds")


class Refined(NamedTuple):
    """Unbiased values of one input, and their standard errors.

    Attributes:
        values: of the players and all outputs.
        stderr: of the values.
    """

    values: Float64[ndarray, "*weights players outputs"]
    stderr: Float64[ndarray, "*weights players outputs"]


@dataclass(frozen=True)
class Task:
    """What a request asks for.

    Attributes:
        explainer: with its surrogate.
        row: the input, as the explainer takes it.
        weights: a semivalue or several; None is the explainer's own.
        rounds: their number.
    """

    explainer: FeatureExplainer
    row: Rows
    weights: Semivalue | list[Semivalue] | None
    rounds: int

    @classmethod
    def read(cls, model: ServedModel[Any], body: bytes) -> Task:
        """Return the task of a request; raise a RequestError that names what is wrong.

        Args:
            model: that is asked.
            body: of the request.
        """
        if not isinstance(model, LearnedModel) or model.explainer.source is None:
            message = "it cannot be refined: serve the folder of a learned explainer, which contains its surrogate"
            raise RequestError(message, "name")
        instances, parameters = read_question(body)
        if not isinstance(parameters, Mapping):
            raise RequestError("parameters must be an object", "parameters")
        for name in parameters:
            if name not in PARAMETERS:
                message = f"unknown parameter; known are {', '.join(PARAMETERS)}"
                raise RequestError(message, f"parameters.{str(name)[:40]}")
        rounds = parameters.get("rounds", ROUNDS)
        if type(rounds) is not int or not 1 <= rounds <= MOST_ROUNDS:
            raise RequestError(f"rounds must be a whole number from 1 to {MOST_ROUNDS}", "parameters.rounds")
        query = read_query({name: value for name, value in parameters.items() if name != "rounds"})
        row = model.fields.read_instances(instances, 1)
        model.prepare(row, query)  # so that what is wrong is named
        weights = None if query.weights is None else list(query.weights)
        return cls(model.explainer.source, row, weights if weights is None or query.is_list else weights[0], rounds)

    def run(self, seed: int) -> Refined:
        """Return one round, which depends on nothing but its seed.

        Args:
            seed: number of the round, from 0.
        """
        try:
            refined: Any = self.explainer.refine(
                self.row, n_calls=CALLS, weights=self.weights, outputs="all", seed=seed, progress=False
            )
        except (ValueError, TypeError) as error:
            raise RequestError(str(error)[:200], "parameters") from error
        arrays = [np.asarray(array, dtype=np.float64) for array in (refined.values, refined.stderr)]
        return Refined(*(array[:, 0] if isinstance(self.weights, list) else array[0] for array in arrays))


def make_router(service: Service) -> APIRouter:
    """Return the route that refines.

    Args:
        service: with the models.
    """
    router = APIRouter(route_class=PlainRoute, tags=["v1"], responses=ERRORS)
    turn = asyncio.Lock()  # one refinement at a time, since it keeps all cores busy

    @router.post("/v1/models/{name}:refine", **REFINE)
    async def refine(request: Request, name: str) -> Response:
        model = service.find(name).model
        task = Task.read(model, await read_body(request))
        if turn.locked():
            raise RequestError("another refinement runs: try again later", status=BUSY, headers={"retry-after": "5"})
        async with turn:
            first = await asyncio.to_thread(task.run, 0)  # what fails has an error of its own status
        rounds = _write_rounds(task, first, turn, service.settings.batches.seconds)
        return StreamingResponse(rounds, media_type="application/x-ndjson")  # which ends if the client leaves

    return router


async def _write_rounds(task: Task, first: Refined, turn: asyncio.Lock, seconds: float) -> AsyncIterator[bytes]:
    """Yield the mean of all rounds after each of them, as JSON."""
    ends = time.monotonic() + seconds
    done = [first]
    async with turn:
        while True:
            count = len(done)
            values = np.mean([refined.values for refined in done], 0)
            stderr = np.sqrt(np.square([refined.stderr for refined in done]).sum(0)) / count
            is_last = count == task.rounds or not stderr.any() or time.monotonic() > ends
            progress = {"round": count, "calls": CALLS * count, "share": 1.0 if is_last else count / task.rounds}
            yield write_json({**progress, "done": is_last, "values": values, "stderr": stderr}) + b"\n"
            if is_last:
                return
            done.append(await asyncio.to_thread(task.run, count))
