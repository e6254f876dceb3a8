"""Files that are written completely or not at all, and folders that one process at a time writes to."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

if sys.platform != "win32":
    import fcntl

LOCK = ".fwshapley.lock"
"""File in a folder that contains the number of the process that writes there."""


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write to; it replaces `path` if there was no error.

    Its name is random, so that several threads or processes can save at once: the last file stays. The file gets the
    permissions of any new file; safetensors would let only its owner read it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}-{secrets.token_hex(8)}{path.suffix}")
    try:
        temporary.touch()
        usual = stat.S_IMODE(temporary.stat().st_mode)
        temporary.unlink()
        yield temporary
        temporary.chmod(usual)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def folder_written_whole(path: Path) -> Iterator[Path]:
    """Yield a new folder beside `path` to write to; it becomes `path`, which must be new or empty, without an error."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise FileExistsError(f"{path} exists already and is not an empty folder: choose another")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    temporary.mkdir()
    try:
        yield temporary
        if path.exists():
            path.rmdir()
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_writable(folder: Path, option: str = "--out") -> None:
    """Raise an error if files cannot be written to a folder, before there is any work to lose; leave no trace.

    Args:
        folder: need not exist yet.
        option: name of the option of the command line, or of the argument, that gives it.
    """
    with _made_folder(folder, option):
        pass


def make_folder(folder: Path, option: str = "--out") -> None:
    """Make a folder and try to write to it; raise an error that names the option to change."""
    nearest = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(f"{nearest} is a file: choose another folder for {option}")
    if not os.access(nearest, os.W_OK):
        raise PermissionError(f"{nearest} may not be written to: choose another folder for {option}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = error.strerror or str(error)
        raise OSError(f"{folder} cannot be written to ({why}): choose another folder for {option}") from error


def check_writable_file(path: Path | None, option: str = "checkpoint=...") -> None:
    """Raise an error if a file could not be written, before there is any work to lose; leave no trace."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: choose a file for {option}")
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(f"{nearest} is a file: choose another folder for {option}")
    try:
        with TemporaryFile(dir=nearest):  # which exists: others may make a new folder at the same time
            pass
    except OSError as error:
        why = error.strerror or str(error)
        raise OSError(f"{nearest} cannot be written to ({why}): choose another folder for {option}") from error


@contextmanager
def _made_folder(folder: Path, option: str) -> Iterator[None]:
    """Make a folder that can be written to, and remove it in the end if it is new and empty."""
    missing = [parent for parent in (folder.absolute(), *folder.absolute().parents) if not parent.exists()]
    make_folder(folder, option)
    try:
        yield
    finally:
        for parent in missing:
            with suppress(OSError):  # it is not empty
                parent.rmdir()


@contextmanager
def locked(folder: Path, option: str = "--out") -> Iterator[None]:
    """Lock a folder for this process; raise an error that names the process that has locked it already.

    The folder is made if need be, and removed in the end if it is empty. The system releases the lock of a process that
    is killed. On Windows, which has no such locks, nothing is locked.

    Args:
        folder: to lock.
        option: name of the option that gives it.
    """
    with _made_folder(folder, option), nullcontext() if sys.platform == "win32" else _lock_file(folder, option):
        yield


@contextmanager
def _lock_file(folder: Path, option: str) -> Iterator[None]:
    """Lock the lock file of a folder, with the number of this process in it."""
    path = folder / LOCK
    with _open_locked(path) as file:
        if file is None:
            holder = path.read_text(encoding="utf-8").strip() if path.exists() else ""
            process = f"process {holder}" if holder else "another process"
            raise BlockingIOError(
                f"{process} is already writing to {folder}: wait until it ends, or choose another folder for {option}"
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # while it is locked, so that no process can lock it in between


@contextmanager
def _open_locked(path: Path) -> Iterator[IO[str] | None]:
    """Yield an open file that this process has locked; None if another process has."""
    while True:
        with path.open("a+", encoding="utf-8") as file:
            if not _lock(file):
                yield None
                return
            if _is_at(file, path):  # otherwise the process that had locked it has removed it meanwhile
                yield file
                return


def _lock(file: IO[str]) -> bool:
    """Whether an open file could be locked, or the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def check_free(folder: Path, names: Iterable[str], *, force: bool) -> None:
    """Raise an error if files cannot be written to a folder, or would replace others without --force."""
    check_writable(folder)
    existing = [name for name in names if (folder / name).exists()]
    if existing and not force:
        it = "it" if len(existing) == 1 else "them"
        raise FileExistsError(
            f"{folder} already has {', '.join(existing)}: replace {it} with --force, or choose another --out"
        )
