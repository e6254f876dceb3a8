"""Checkpoints of training, which a run continues from exactly, and Ctrl-C that waits until one is saved."""

from __future__ import annotations

import math
import signal
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn

from fwshapley._internal.safetensors_file import check_same_run, load_bundle, save_bundle
from fwshapley.training.budget import History, TrainingOptions

FREE_OPTIONS = ("compiled", "budget", "checkpoint", "resume", "progress", "started")
"""Options that may differ when a run is resumed; seconds and steps of the budget may not."""


@dataclass
class Progress:
    """How far a run is.

    Attributes:
        best: state of the module to keep.
        best_step: step of that state; None while it is the initial one.
        best_loss: its validation loss.
        validations_without_progress: number of validations since.
        history: of the run.
    """

    best: dict[str, Tensor]
    best_step: int | None = None
    best_loss: float = math.inf
    validations_without_progress: int = 0
    history: History = field(default_factory=History)


class Resumable:
    """A training run that can be saved to a file and continued from it.

    Attributes:
        module: what is trained.
        optimizers: of its parameters.
        options: of the run.
        identity: what else must agree for a checkpoint to be resumed, JSON-compatible.
        progress: how far the run is.
    """

    module: nn.Module
    optimizers: list[torch.optim.Optimizer]
    options: TrainingOptions
    identity: Mapping[str, Any]
    progress: Progress

    def save(self, path: Path) -> None:
        """Write the run to a file, completely or not at all."""
        tensors = {f"module.{name}": tensor for name, tensor in self.module.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.progress.best.items()}
        for number, optimizer in enumerate(self.optimizers):
            for index, entries in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer {number}.{index}.{name}": tensor for name, tensor in entries.items()}
        facts = {name: value for name, value in vars(self.progress).items() if name != "best"}
        facts |= {"history": asdict(self.progress.history), "best_loss": repr(self.progress.best_loss)}
        save_bundle(path, "checkpoint", facts | {"identity": self._identify()}, tensors)

    def load(self, path: Path) -> None:
        """Continue from a file; raise a ValueError if it is the checkpoint of another run."""
        facts, tensors = load_bundle(path, "checkpoint")
        check_same_run(path, facts.pop("identity"), self._identify())
        parts: dict[str, dict[str, Tensor]] = defaultdict(dict)
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        self.module.load_state_dict(parts["module"])
        for number, optimizer in enumerate(self.optimizers):
            _load_optimizer(optimizer, parts[f"optimizer {number}"])
        facts |= {"history": History.from_facts(facts["history"]), "best_loss": float(facts["best_loss"])}
        self.progress = Progress(best=parts["best"], **facts)

    def _identify(self) -> dict[str, Any]:
        """Return what must not change between a checkpoint and its resumption."""
        fixed = {name: value for name, value in asdict(self.options).items() if name not in FREE_OPTIONS}
        return {**fixed, **asdict(self.options.budget), **self.identity}


def _load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, _, entry = name.partition(".")
        state.setdefault(int(index), {})[entry] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, entries in optimizer.state.items():  # files keep no memory format, which fused steps need
        for entry, moment in entries.items():
            if moment.shape == parameter.shape:
                entries[entry] = torch.empty_like(parameter).copy_(moment)


class HeldInterrupts:
    """Context manager that delays Ctrl-C to its end; meanwhile, `pending` is True once Ctrl-C was pressed.

    A second Ctrl-C is not delayed. In other threads, or if another handler is installed, nothing is delayed.

    Args:
        enabled: False delays nothing.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self.pending = False
        self._enabled = enabled

    def __enter__(self) -> Self:
        is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self._enabled = self._enabled and is_default and threading.current_thread() is threading.main_thread()
        if self._enabled:
            signal.signal(signal.SIGINT, self._hold)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._enabled:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.pending and kind is None:
            raise KeyboardInterrupt

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self.pending:
            signal.default_int_handler(number, frame)
        self.pending = True
