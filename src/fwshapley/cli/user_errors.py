"""Errors of the user's own code, such as the model that the command line names: which they are, and where in it."""

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
    """Count as the user's code what is in a folder and not installed, and forget what counted before."""
    _files.clear()
    _folders.clear()
    _folders.add(folder.resolve())


def remember_module(module: ModuleType) -> None:
    """Count a module as the user's code, also if it is installed."""
    file = getattr(module, "__file__", None)
    if file is not None:
        _files.add(Path(file).resolve())


def remember_model(model: Any) -> None:  # noqa: ANN401 - anything
    """Count the classes of a model as the user's code, also those of libraries other than torch."""
    parts = model.modules() if isinstance(model, nn.Module) else [model]
    for kind in {type(part) for part in parts}:
        if kind.__module__.partition(".")[0] not in {"torch", "builtins"}:
            try:
                _files.add(Path(inspect.getfile(kind)).resolve())
            except (OSError, TypeError):  # not defined in a file
                continue


def find_origin(error: BaseException) -> Origin | None:
    """Return what the user's code raised and where, if an error or its cause comes from there."""
    for cause in _chain(error):
        place = _last_place(cause)
        if place is not None:
            return Origin(cause, place)
    return None


def describe(error: BaseException) -> str:
    """Return the kind and the message of an error, on one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - str() of a user's error may raise anything
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _chain(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    seen: list[BaseException] = []
    while current is not None and not any(current is error for error in seen):
        seen.append(current)
        current = current.__cause__
    yield from reversed(seen)


def _last_place(error: BaseException) -> str | None:
    """Return the last line of the user's code that an error passed through; None if code of ours raised it."""
    place = None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith("<"):  # not a file, such as the import system
            continue
        file = Path(frame.filename).resolve()
        if file.is_relative_to(OURS):
            place = None
        elif _is_users(file):
            place = f"{_relative(file)}:{frame.lineno}"
    return place


def _is_users(file: Path) -> bool:
    if file in _files:
        return True
    installed = any(file.is_relative_to(folder) for folder in LIBRARIES)
    return not installed and any(file.is_relative_to(folder) for folder in _folders)


def _relative(file: Path) -> Path:
    """Return a path relative to the current folder if it is below it, else unchanged."""
    current = Path.cwd()
    return file.relative_to(current) if file.is_relative_to(current) else file
