"""Settings of a server: limits, who may use it, and from where."""

from __future__ import annotations

from dataclasses import dataclass, field

from fwshapley.serving.http.batching import BatchLimits

MEBIBYTE = 2**20
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
"""Hosts that a request may name if the server is bound to one of them: others are pages that use a forged name."""


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server of explanations.

    Attributes:
        host: address to bind to; by default this machine alone can use the server.
        port: to bind to; 0 is a free one.
        token: that clients must send as "Authorization: Bearer TOKEN"; None: no token is needed.
        origins: of pages of other servers whose scripts may use this one (CORS).
        max_body: most bytes of a request.
        max_instances: most inputs of a request.
        read_seconds: that a client may take to send a request.
        shutdown_seconds: that requests get to finish when the server is stopped.
        max_connections: most connections at once.
        batches: how requests are computed together.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    token: str | None = None
    origins: tuple[str, ...] = ()
    max_body: int = 32 * MEBIBYTE
    max_instances: int = 1024
    read_seconds: float = 15.0
    shutdown_seconds: float = 30.0
    max_connections: int = 1024
    batches: BatchLimits = field(default_factory=BatchLimits)

    @property
    def hosts(self) -> tuple[str, ...] | None:
        """Hosts that a request may name; None for any."""
        is_local = self.host in LOCAL_HOSTS or self.host == "::1"
        return LOCAL_HOSTS if is_local else None
