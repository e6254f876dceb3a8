"""A fair, re-entrant lock: threads get it in the order in which they ask for it."""

from __future__ import annotations

import os
import threading
from types import TracebackType


class Turns:
    """Lets one thread work at a time, first come, first served; a thread that holds the lock may enter again.

    A plain `threading.Lock` that a loop releases and takes again is hardly ever free for others. Here a thread that
    waits holds a second lock, the door, so that the loop cannot overtake it.
    """

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):  # a forked child has none of the threads that would release the locks
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._door, self._work = threading.Lock(), threading.Lock()
        self._own = threading.local()

    def __enter__(self) -> None:
        depth = getattr(self._own, "depth", 0)
        if not depth:
            with self._door:
                self._work.acquire()
        self._own.depth = depth + 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._own.depth -= 1
        if not self._own.depth:
            self._work.release()
