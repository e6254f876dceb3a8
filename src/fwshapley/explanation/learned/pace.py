"""How much a fit can measure within its seconds, from the time that the model and the surrogate take for an input."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from fwshapley._internal.files import written_whole
from fwshapley.explanation.inputs.predictions import raw_outputs
from fwshapley.games.masked_model import MaskedModel
from fwshapley.training.budget import TrainingOptions

TIMED_SECONDS = 0.02
"""A call that takes at least this long tells the time of an input."""

TIMED_ROWS = 64
FILE = "pace.json"
"""In the folder of checkpoints: a resumed run measures as much as before."""


class Pace(NamedTuple):
    """The budget of a fit, and what predictions cost. With a budget in steps alone, nothing is limited.

    Attributes:
        budget: in seconds, or infinite.
        model: seconds that a prediction of the model takes.
        surrogate: seconds that a prediction of the surrogate takes.
    """

    budget: float = math.inf
    model: float = 0.0
    surrogate: float = 0.0

    def afford(self, share: float, cost: float, *, least: int, most: int) -> int:
        """Return how often something can be done in a share of the budget, between two limits.

        Args:
            share: of the budget.
            cost: seconds each time.
            least: done in any case, unless `most` is less.
            most: never done more often.

        Example:
            >>> Pace(budget=10).afford(0.1, 0.02, least=8, most=512)
            50
        """
        if math.isinf(self.budget) or cost <= 0:
            return most
        return min(max(int(share * self.budget / cost), least), most)


def measure_pace(
    model: nn.Module, masked_model: MaskedModel, x: Float[Tensor, "rows ..."], options: TrainingOptions
) -> Pace:
    """Return the pace of a fit, measured on a few inputs; that of the earlier run if it is resumed.

    Several processes, which must draw the same batches, measure nothing and so have no limits.
    """
    seconds, folder = options.budget.seconds, options.checkpoint
    if seconds is None or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return Pace()
    path = None if folder is None else folder / FILE
    if path is not None and options.resume and path.exists():
        return Pace(**json.loads(path.read_text(encoding="utf-8")))
    few = x[:TIMED_ROWS].to(masked_model.device)
    pace = Pace(seconds, time_of_input(partial(raw_outputs, model), few), time_of_input(masked_model.full_values, few))
    if path is not None:
        _save(pace, path)
    return pace


def time_of_input(call: Callable[[Tensor], Tensor], x: Float[Tensor, "rows ..."]) -> float:
    """Return the seconds that a call takes for each input: from the smallest batch whose time can be told.

    Other processes may interrupt a call, so the shortest of three counts.
    """

    def time_once(count: int) -> float:
        started = time.monotonic()
        float(call(x[:count]).sum())  # waits for the device
        return time.monotonic() - started

    call(x[:1])  # the first call prepares what later ones use
    count, seconds = 1, time_once(1)
    while seconds < TIMED_SECONDS and count < len(x):
        count = min(4 * count, len(x))
        seconds = time_once(count)
    return min(seconds, time_once(count), time_once(count)) / count


def _save(pace: Pace, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(pace._asdict()), encoding="utf-8")
