"""A command run in a process of its own, which stops, pauses and ends as we do."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
Handler = Callable[[int, Any], None]
GROUPS = hasattr(os, "killpg")
"""Whether there are groups of processes, so that a terminal need not signal the command, too."""


class Ended(NamedTuple):
    """How a command ended.

    Attributes:
        status: its exit status, negative for a signal.
        interrupted: whether it was told to stop by Ctrl-C.
    """

    status: int
    interrupted: bool


def run_to_end(command: Sequence[str]) -> Ended:
    """Run a command, its output as it comes, until it ends.

    It is a group of its own: Ctrl-C reaches us alone, as `kill -INT` does, and each is passed on once. A second one
    means another thing than the first to who works in there.
    """
    received: list[int] = []
    early: list[int] = []
    process: subprocess.Popen[bytes] | None = None

    def send(number: int) -> None:
        if process is None:  # it is sent once there is one
            early.append(number)
            return
        with suppress(ProcessLookupError):  # it has just ended
            if GROUPS:
                os.killpg(process.pid, number)
            elif number != signal.SIGINT:  # which all of one console have
                process.send_signal(number)

    def pass_on(number: int, _: object) -> None:
        received.append(number)
        send(number)

    def pause(number: int, _: object) -> None:
        send(number)
        os.kill(os.getpid(), signal.SIGSTOP)
        send(signal.SIGCONT)

    handlers: dict[str, Handler] = dict.fromkeys(PASSED_ON, pass_on)
    with _handled(handlers | ({"SIGTSTP": pause} if GROUPS else {})):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0 if GROUPS else None)  # noqa: S603 - the caller's
        for number in early:
            send(number)
        status = process.wait()
    return Ended(status, signal.SIGINT in received)


@contextmanager
def _handled(handlers: dict[str, Handler]) -> Iterator[None]:
    """Handle the signals that this system has, but those that we were started to ignore, as by nohup."""
    known = {signal.Signals[name]: each for name, each in handlers.items() if name in signal.Signals.__members__}
    usual = {number: signal.getsignal(number) for number in known}
    heeded = {number: before for number, before in usual.items() if before is not signal.SIG_IGN}
    for number in heeded:
        signal.signal(number, known[number])
    try:
        yield
    finally:
        for number, before in heeded.items():
            signal.signal(number, before)
