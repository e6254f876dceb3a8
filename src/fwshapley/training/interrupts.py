"""Ctrl-C that waits until work can be saved."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self


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
