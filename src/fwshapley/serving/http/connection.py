"""Connections as uvicorn has them, with a limit on heads of requests, and one write for each reply."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 2**16
"""Bytes."""


class JoinedWrites:
    """A transport that writes head and body of a reply at once: each write wakes the client.

    Args:
        transport: that writes.
    """

    def __init__(self, transport: Any) -> None:  # noqa: ANN401 - of asyncio or uvloop
        self._transport = transport
        self._parts: list[bytes] = []
        self._call_soon = asyncio.get_running_loop().call_soon

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of the transport
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write when the loop has nothing else to do at once."""
        if not self._parts:
            self._call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Write what is left, and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts:
            self._transport.write(b"".join(self._parts))
            self._parts.clear()


class HttpConnection(HttpToolsProtocol):
    """A connection that is closed if a client sends too much besides bodies, which the parser would keep in memory."""

    _overhead = 0

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as in the base class
        """Begin."""
        super().connection_made(JoinedWrites(transport))  # type: ignore[arg-type]  # it has all of its methods

    def data_received(self, data: bytes) -> None:
        """Parse bytes of a request."""
        self._overhead += len(data)
        super().data_received(data)  # it calls the methods below
        if self._overhead > MAX_HEAD and not self.transport.is_closing():
            self.send_400_response(f"The head of a request must have at most {MAX_HEAD:,} bytes.")

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._overhead = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Take the end of a request."""
        self._overhead = 0
        super().on_message_complete()
