from collections.abc import Iterator

import pytest

from fwshapley._internal import progress


@pytest.fixture(autouse=True, scope="module")
def announce_only_hours() -> Iterator[None]:
    """Announce only work of more than an hour, or the output of a command would depend on how busy the machine is."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(progress, "LONG_SECONDS", 3600.0)
        yield
