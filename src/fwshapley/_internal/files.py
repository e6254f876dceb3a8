"""Files that are either written whole or not at all, and folders that may take them, from one process at a time."""

from __future__ import annotations

import os
import secrets
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
"""File in a folder that holds the number of the process that works there."""


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` to write to; it takes the place of `path` only if all went well.

    Its name is drawn at random, so that several threads or processes can save at once: the last one's file stays.
    Others may read it as they may read any new file; safetensors alone would keep it to its owner.
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


def check_writable(folder: Path, option: str = "--out") -> None:
    """Raise an error if files cannot be written to a folder, before there is any work to lose; leave nothing there.

    Args:
        folder: need not be there yet.
        option: what the caller names it by: an option of the command line or an argument.
    """
    with _made_folder(folder, option):
        pass


def make_folder(folder: Path, option: str = "--out") -> None:
    """Make a folder and try to write to it, or raise an error that names the option to change."""
    nearest = next(each for each in (folder, *folder.absolute().parents) if each.exists())
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


def check_checkpoint(path: Path | None, option: str = "checkpoint=...") -> None:
    """Raise an error if a checkpoint could not be saved to a file, before there is any work to lose; leave no trace."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: choose a file for {option}")
    nearest = next(each for each in path.absolute().parents if each.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(f"{nearest} is a file: choose another folder for {option}")
    try:
        with TemporaryFile(dir=nearest):  # in a folder that is there: others may need a new one at the same time
            pass
    except OSError as error:
        why = error.strerror or str(error)
        raise OSError(f"{nearest} cannot be written to ({why}): choose another folder for {option}") from error


@contextmanager
def _made_folder(folder: Path, option: str) -> Iterator[None]:
    """Make a folder that can be written to, and remove it again in the end if it is new and has nothing in it."""
    missing = [each for each in (folder.absolute(), *folder.absolute().parents) if not each.exists()]
    make_folder(folder, option)
    try:
        yield
    finally:
        for each in missing:
            with suppress(OSError):  # there is something in it
                each.rmdir()


@contextmanager
def locked(folder: Path, option: str = "--out") -> Iterator[None]:
    """Keep a folder to this process; raise an error that names the process that has it already.

    The folder is made if need be, and removed again if nothing was left in it. The system drops the lock of a process
    that was killed. Windows has no such locks, so there a folder is not kept.

    Args:
        folder: to be kept.
        option: that names it.
    """
    with _made_folder(folder, option), nullcontext() if sys.platform == "win32" else _lock_file(folder, option):
        yield


@contextmanager
def _lock_file(folder: Path, option: str) -> Iterator[None]:
    """Hold the lock file of a folder, with our number in it."""
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
            path.unlink(missing_ok=True)  # while it is locked, so that nobody can lock it in between


@contextmanager
def _open_locked(path: Path) -> Iterator[IO[str] | None]:
    """Give a file that we have locked; None if somebody else has."""
    while True:
        with path.open("a+", encoding="utf-8") as file:
            if not _lock(file):
                yield None
                return
            if _is_at(file, path):  # or else whoever had it has removed it meanwhile
                yield file
                return


def _lock(file: IO[str]) -> bool:
    """Whether an open file could be locked; where the file system knows no locks, we go on without."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether an open file is still the one that a path names."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def check_free(folder: Path, names: Iterable[str], *, force: bool) -> None:
    """Raise an error if files cannot be written to a folder, or would replace others that nobody said to replace."""
    check_writable(folder)
    there = [name for name in names if (folder / name).exists()]
    if there and not force:
        it = "it" if len(there) == 1 else "them"
        raise FileExistsError(
            f"{folder} already has {', '.join(there)}: replace {it} with --force, or choose another --out"
        )
