"""The state of a run of model fits, saved to a file from time to time, so that it can be resumed."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from jaxtyping import Float64
from torch import Tensor

from fwshapley._internal.safetensors_file import check_same_run, load_bundle, save_bundle

CHECKPOINT_SECONDS = 20.0
KIND = "checkpoint of a valuation"


class State(NamedTuple):
    """How far a run has come.

    Attributes:
        sums: sums over the draws so far; for least squares the values of the coalitions so far, (1, draws).
        n_draws: number of draws so far.
        n_fits: number of model fits so far, including those before the first draw.
    """

    sums: Float64[Tensor, "rows columns"]
    n_draws: int
    n_fits: int


class Checkpoint:
    """Keeps the state of a run, in memory and in a file.

    Args:
        path: file to save to; None saves nothing.
        identity: what a resumed run must have in common with the saved one, as JSON.
        resume: continue from the file if it exists.

    Attributes:
        state: the current state.
    """

    state: State

    def __init__(self, path: Path | None, identity: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path
        self.identity = identity
        self.resume = resume
        self._saved = -math.inf

    @contextmanager
    def run(self, start: State) -> Iterator[None]:
        """Begin with the saved state or with `start`; save it at once, so that errors appear early, and at the end."""
        resumed = self.resume and self.path is not None and self.path.exists()
        self.state = self._load() if resumed else start
        self.save()
        try:
            yield
        finally:
            self.save()

    def update(self, state: State) -> None:
        """Replace the state in one assignment, so that an interrupt finds the old or the new one; save it if due."""
        self.state = state
        if time.monotonic() - self._saved > CHECKPOINT_SECONDS:
            self.save()

    def save(self) -> None:
        """Write the state to the file, if there is one."""
        if self.path is not None:
            facts = {"identity": dict(self.identity), "n_draws": self.state.n_draws, "n_fits": self.state.n_fits}
            save_bundle(self.path, KIND, facts, {"sums": self.state.sums})
        self._saved = time.monotonic()

    def _load(self) -> State:
        assert self.path is not None  # noqa: S101 - the caller has checked
        facts, arrays = load_bundle(self.path, KIND)
        check_same_run(self.path, facts["identity"], self.identity)
        return State(arrays["sums"], facts["n_draws"], facts["n_fits"])
