"""Clients that do what they should not: the server stays up, answers others, and never fails."""

from __future__ import annotations

import re
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from fwshapley.serving.http.settings import ServerSettings
from serving_parts import PATIENCE, Explained, Running, running

HEAD = "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
TENSOR = b'{"name": "inputs", "shape": [1, 3], "datatype": "FP64", "data": [1, 2, 3]}'
GOOD = {
    "/v1/models/linear:explain": b'{"instances": [[1, 2.5, -3]], "parameters": {"alpha": 4, "beta": 1}}',
    "/v1/models/shapes:predict": b'{"instances": [[[[1, 2], [3, 4]]]], "parameters": {"outputs": ["all", 0]}}',
    "/v2/models/linear/infer": b'{"inputs": [%b], "outputs": [{"name": "values"}], "id": "7"}' % TENSOR,
}
GIGABYTE = 2**30
PIPELINED = 250


@contextmanager
def connected(server: Running) -> Iterator[socket.socket]:
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        yield connection


def change(good: bytes, generator: np.random.Generator) -> bytes:
    """Return bytes with some changed, and sometimes without their end."""
    body = bytearray(good)
    for place in generator.integers(0, len(good), generator.integers(1, 4)):
        body[place] = generator.integers(0, 256)
    return bytes(body[: generator.integers(1, len(good))] if generator.random() < 0.2 else body)


def read_all(connection: socket.socket) -> bytes:
    parts = []
    try:
        while data := connection.recv(2**16):
            parts.append(data)
    except ConnectionError:  # the rest of a request that was refused
        pass
    return b"".join(parts)


def test_it_answers_10000_malformed_requests(server: Running) -> None:
    generator = np.random.default_rng(0)
    paths = list(GOOD)
    answers = Counter[bytes]()
    for _ in range(10_000 // PIPELINED):
        with connected(server) as connection:
            requests = []
            for place in generator.integers(0, len(paths), PIPELINED):
                body = change(GOOD[paths[place]], generator)
                requests.append(HEAD.format(paths[place], len(body)).encode() + body)
            connection.sendall(b"".join(requests))
            received = b""
            while received.count(b"HTTP/1.1 ") < PIPELINED:
                part = connection.recv(2**20)
                assert part, "the server closed the connection"
                received += part
            answers.update(re.findall(rb"HTTP/1.1 (\d+)", received))
    assert answers.total() == 10_000
    assert answers.keys() <= {b"200", b"400", b"422"}
    assert answers[b"400"] > answers[b"422"] > answers[b"200"] > 0


def test_it_survives_malformed_heads(server: Running) -> None:
    generator = np.random.default_rng(1)
    path, body = next(iter(GOOD.items()))
    for _ in range(200):
        with connected(server) as connection:
            connection.sendall(change(HEAD.format(path, len(body)).encode(), generator) + body)
            if select.select([connection], [], [], 0.01)[0]:  # others wait for the rest of the request
                assert not connection.recv(2**16).startswith(b"HTTP/1.1 500")
    assert server.post(path, {"instances": [[1, 2, 3]]}).status_code == 200
    assert 'status="500"' not in server.get("/metrics").text


def send_until_refused(server: Running, head: bytes, next_part: Callable[[], bytes]) -> tuple[int, bytes]:
    """Return how many bytes a client could send before it was answered, and the answer."""
    with connected(server) as connection:
        connection.sendall(head)
        sent = 0
        try:
            while sent < GIGABYTE and not select.select([connection], [], [], 0)[0]:
                sent += connection.send(next_part())
        except ConnectionError:
            pass
        return sent, read_all(connection)


def test_a_gigabyte_is_refused_before_it_has_arrived(explained: dict[str, Explained]) -> None:
    chunk = b"10000\r\n" + b" " * 2**16 + b"\r\n"
    path = "/v1/models/linear:explain"
    chunked = HEAD.format(path, 0).replace("Content-Length: 0", "Transfer-Encoding: chunked").encode()
    with running(lambda: {"linear": explained["linear"].model}, ServerSettings(max_body=2**20)) as server:
        for head, part in ((chunked, chunk), (HEAD.format(path, GIGABYTE).encode(), b" " * 2**16)):
            sent, answer = send_until_refused(server, head, lambda part=part: part)  # type: ignore[misc]
            assert answer.startswith(b"HTTP/1.1 413")
            assert sent < 2**25
        sent, answer = send_until_refused(server, b"GET / HTTP/1.1\r\nX-Endless: ", lambda: b"a" * 2**16)
        assert answer.startswith(b"HTTP/1.1 400")
        assert sent < 2**25
        assert server.post(path, {"instances": [[1, 2, 3]]}).status_code == 200


def test_clients_that_hang_or_leave_do_not_keep_others_waiting(server: Running) -> None:
    path, body = next(iter(GOOD.items()))
    request = HEAD.format(path, len(body)).encode() + body
    with connected(server) as deaf, connected(server) as half:
        half.sendall(request[:-1])
        deaf.sendall(request * 20)  # and reads no answer
        for _ in range(20):
            with connected(server) as leaving:
                leaving.sendall(request)
        began = time.monotonic()
        assert server.post(path, {"instances": [[1, 2, 3]]}).status_code == 200
        assert time.monotonic() - began < PATIENCE / 2
