"""The server that the tests share."""

from serving_parts import explained, server

__all__ = ["explained", "server"]
