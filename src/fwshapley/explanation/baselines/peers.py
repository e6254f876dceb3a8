"""The libraries that some baselines come from, imported when they are asked for."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any


def check_installed(method: str, library: str) -> None:
    """Raise an error that says how to get a library unless it is there."""
    module = {"scikit-learn": "sklearn"}.get(library, library)
    if find_spec(module) is None:
        raise ModuleNotFoundError(f"{method} needs {library}: pip install 'fwshapley[baselines]'")


def captum_method(name: str) -> Any:  # noqa: ANN401 - captum is untyped
    """Return a class of captum's by its name."""
    import captum.attr  # noqa: PLC0415 - optional, so imported where it is needed

    return getattr(captum.attr, name)
