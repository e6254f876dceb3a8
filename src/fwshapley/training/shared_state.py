"""What training shares with the rest of the process, one run at a time: torch's generators and accelerate's state.

Dropout draws from torch's global generators, which all threads share, and accelerate keeps its state on its classes.
So threads that train take turns, step by step, and each step uses the generators and the state of its own run.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState

from fwshapley.training.batches import Shard

SHARED_CLASSES = (PartialState, AcceleratorState, GradientState)
"""Classes of accelerate that keep their state for the whole process."""

State = dict[type, dict[str, Any]]


class FairLock:
    """A re-entrant lock that threads get in the order in which they ask for it.

    A plain `threading.Lock` that a loop releases and acquires again is almost never free for others. Here a waiting
    thread has a second lock, the door, so the loop cannot overtake it.
    """

    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):  # a forked child has none of the threads that would release the locks
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._door = threading.Lock()
        self._work = threading.Lock()
        self._local = threading.local()

    def __enter__(self) -> None:
        depth = getattr(self._local, "depth", 0)
        if not depth:
            with self._door:
                self._work.acquire()
        self._local.depth = depth + 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._local.depth -= 1
        if not self._local.depth:
            self._work.release()


_lock = FairLock()


@contextmanager
def private_randomness(device: torch.device) -> Iterator[None]:
    """Let the block seed torch's global generators, which new layers and dropout use, and restore them afterwards.

    Threads enter one after the other.
    """
    with _lock, torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


class PrivateAccelerator:
    """An accelerator whose state, and torch's global generators, are private to one training run.

    Args:
        device: where to train.
        mixed_precision: compute in bf16 where that is accurate enough.

    Attributes:
        accelerator: to be used inside `turn()` only.
        is_main: whether this is the process that reports and saves.
        shard: the share of every batch that this process computes.
    """

    def __init__(self, device: torch.device, *, mixed_precision: bool) -> None:
        self._device = device
        # One process may train on several devices, one after the other; several processes share their group.
        self._states: State = {kind: {} for kind in SHARED_CLASSES}
        if torch.distributed.is_initialized():
            with private_randomness(device):  # while no other thread has exchanged it
                self._states[PartialState] = dict(PartialState._shared_state)  # noqa: SLF001 - accelerate has no other way
        with self.turn():
            self.accelerator = Accelerator(
                cpu=device.type == "cpu",
                mixed_precision="bf16" if mixed_precision else "no",
                device_placement=False,  # the module is already where it belongs
            )
            self.is_main = bool(self.accelerator.is_main_process)
            self.shard = Shard(self.accelerator.process_index, self.accelerator.num_processes)
        if self.shard.count > 1:
            atexit.register(leave_process_group)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Keep other threads waiting, with torch's generators and accelerate's state private to this run."""
        with private_randomness(self._device):
            others = _exchange_state(self._states)
            try:
                yield
            finally:
                self._states = _exchange_state(others)


def leave_process_group() -> None:
    """Leave the process group at exit; otherwise its threads may abort the process."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _exchange_state(new: State) -> State:
    """Give accelerate's classes another state, and return the previous one."""
    old: State = {kind: dict(kind._shared_state) for kind in SHARED_CLASSES}  # noqa: SLF001 - accelerate has no other way
    for kind, state in new.items():
        kind._shared_state.clear()  # type: ignore[attr-defined] # noqa: SLF001 - as above
        kind._shared_state.update(state)  # type: ignore[attr-defined] # noqa: SLF001 - as above
    return old
