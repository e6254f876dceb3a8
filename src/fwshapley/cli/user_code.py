"""Which errors come from the user's own code, a model that the command line names, and where in it."""

from __future__ import annotations

import inspect
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from torch import nn

OURS = Path(__file__).resolve().parents[1]
LIBRARIES = tuple({Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")})

_files: set[Path] = set()
_folders: set[Path] = set()


class Origin(NamedTuple):
    """An error that the user's code raised.

    Attributes:
        error: the error itself, whatever it was turned into later.
        place: last line of the user's code that it went through, as file:line.
    """

    error: BaseException
    place: str


def remember_folder(folder: Path) -> None:
    """Take for the user's code what is in a folder and not installed, and nothing that was taken for it before."""
    _files.clear()
    _folders.clear()
    _folders.add(folder.resolve())


def remember_module(module: ModuleType) -> None:
    """Take a module for the user's code, also where it is installed."""
    file = getattr(module, "__file__", None)
    if file is not None:
        _files.add(Path(file).resolve())


def remember_model(model: Any) -> None:  # noqa: ANN401 - anything
    """Take the classes of a model for the user's code, also where a library has them, unless they are torch's."""
    parts = model.modules() if isinstance(model, nn.Module) else [model]
    for kind in {type(part) for part in parts}:
        if kind.__module__.partition(".")[0] not in {"torch", "builtins"}:
            try:
                _files.add(Path(inspect.getfile(kind)).resolve())
            except (OSError, TypeError):  # it was not made in a file
                continue


def find_origin(error: BaseException) -> Origin | None:
    """Return what the user's code raised and where, if an error or what caused it comes from there."""
    for each in _chain(error):
        place = _last_place(each)
        if place is not None:
            return Origin(each, place)
    return None


def say(error: BaseException) -> str:
    """Return the kind of an error and what it says, on one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - the user's code may fail at that, too
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _chain(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    seen: list[BaseException] = []
    while current is not None and not any(current is each for each in seen):
        seen.append(current)
        current = current.__cause__
    yield from reversed(seen)


def _last_place(error: BaseException) -> str | None:
    """Return the last line of the user's code that an error went through; None if it was met in code of ours."""
    place = None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith("<"):  # no file, such as what Python imports with
            continue
        file = Path(frame.filename).resolve()
        if file.is_relative_to(OURS):
            place = None
        elif _is_users(file):
            place = f"{_shown(file)}:{frame.lineno}"
    return place


def _is_users(file: Path) -> bool:
    if file in _files:
        return True
    installed = any(file.is_relative_to(folder) for folder in LIBRARIES)
    return not installed and any(file.is_relative_to(folder) for folder in _folders)


def _shown(file: Path) -> Path:
    """Return a path as the user would write it: below the current folder, or whole."""
    here = Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else file
