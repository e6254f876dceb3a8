"""Download a file and verify its checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from http.client import HTTPException
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from fwshapley._internal.files import written_whole
from fwshapley._internal.progress import ProgressBar
from fwshapley._internal.version import __version__

CHUNK_BYTES = 2**20
TIMEOUT_SECONDS = 30


class RemoteFile(NamedTuple):
    """A published file.

    Attributes:
        url: address of the file.
        md5: checksum from its publishers or from torchvision. It detects damage, not malice.
    """

    url: str
    md5: str

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.url.rpartition("/")[2]


def download(file: RemoteFile, folder: Path, *, progress: bool = True) -> Path:
    """Download a file into a folder, verify its md5 and return its path. A failure leaves no file behind."""
    path = folder / file.name
    digest = hashlib.md5(usedforsecurity=False)
    chunks = _read_chunks(file, progress=progress)
    first = next(chunks, b"")  # connect before anything is created, even the folder
    with written_whole(path) as temporary:
        with temporary.open("wb") as output:
            for chunk in chain([first], chunks):
                output.write(chunk)
                digest.update(chunk)
        if digest.hexdigest() != file.md5:
            raise ValueError(
                f"{file.url} is damaged or has changed: its md5 is {digest.hexdigest()}, expected {file.md5}. "
                "The file was not kept; try again"
            )
    return path


def _read_chunks(file: RemoteFile, *, progress: bool) -> Iterator[bytes]:
    """Read a file from its server chunk by chunk; every failure is a ConnectionError."""
    request = Request(file.url, headers={"User-Agent": f"fwshapley/{__version__}"})  # noqa: S310 - a URL of our list
    try:
        with urlopen(request, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310 - as above
            n_chunks = -(-int(response.headers.get("Content-Length", 0)) // CHUNK_BYTES)
            with ProgressBar(f"downloading {file.name}, MB", n_chunks, enabled=progress) as bar:
                while chunk := response.read(CHUNK_BYTES):
                    yield chunk
                    bar.advance(1)
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):  # it holds an open connection
            error.close()
        raise ConnectionError(f"cannot download {file.url} ({getattr(error, 'reason', error)})") from error
