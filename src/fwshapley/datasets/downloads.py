"""Files from the internet: checked, and either there whole or not at all."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from fwshapley._internal.files import written_whole
from fwshapley._internal.progress import ProgressBar
from fwshapley.version import __version__

CHUNK_BYTES = 2**20
TIMEOUT_SECONDS = 30


class RemoteFile(NamedTuple):
    """A file that others publish.

    Attributes:
        address: of the file itself.
        md5: checksum that its publishers, or torchvision, give. It tells damage, not malice.
    """

    address: str
    md5: str

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.address.rpartition("/")[2]


def download(file: RemoteFile, folder: Path, *, progress: bool = True) -> Path:
    """Fetch a file into a folder, check it, and return its path; a failure leaves nothing behind.

    Args:
        file: what to fetch.
        folder: made if need be.
        progress: shows how far it is: a bar on a terminal, lines elsewhere.
    """
    found, path = hashlib.md5(usedforsecurity=False), folder / file.name
    chunks = _chunks(file, progress=progress)
    first = next(chunks, b"")  # nothing is made, not even a folder, before anything arrives
    with written_whole(path) as temporary:
        with temporary.open("wb") as out:
            for chunk in itertools.chain([first], chunks):
                out.write(chunk)
                found.update(chunk)
        if found.hexdigest() != file.md5:
            raise ValueError(
                f"{file.address} arrived damaged, or was changed: its md5 is {found.hexdigest()}, not {file.md5}. "
                "Nothing was kept; try again"
            )
    return path


def _chunks(file: RemoteFile, *, progress: bool) -> Iterator[bytes]:
    """Contents of a file, as they arrive; what goes wrong on the way is one kind of error."""
    agent = {"User-Agent": f"fwshapley/{__version__}"}
    request = Request(file.address, headers=agent)  # noqa: S310 - an address of our list
    try:
        with urlopen(request, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310 - as above
            total = -(-int(response.headers.get("Content-Length", 0)) // CHUNK_BYTES)
            with ProgressBar(f"downloading {file.name}, MB", total, enabled=progress) as bar:
                while chunk := response.read(CHUNK_BYTES):
                    yield chunk
                    bar.advance(1)
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):  # a response of its own, with a connection
            error.close()
        raise ConnectionError(f"{file.address} cannot be downloaded ({getattr(error, 'reason', error)})") from error
