"""Files that are either written whole or not at all, and folders that may take them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` to write to; it takes the place of `path` only if all went well.

    Others may read it as they may read any new file; safetensors alone would keep it to its owner.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}-{os.getpid()}{path.suffix}")
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
    """Raise an error if files cannot be written to a folder, before there is any work to lose.

    Args:
        folder: need not be there yet.
        option: that names it.
    """
    nearest = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(f"{nearest} is a file: choose another folder for {option}")
    if not os.access(nearest, os.W_OK):
        raise PermissionError(f"{nearest} may not be written to: choose another folder for {option}")


def make_folder(folder: Path, option: str = "--out") -> None:
    """Make a folder and try to write to it, or raise an error that names the option to change."""
    check_writable(folder, option)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = error.strerror or str(error)
        raise OSError(f"{folder} cannot be written to ({why}): choose another folder for {option}") from error


def check_free(folder: Path, names: Iterable[str], *, force: bool) -> None:
    """Raise an error if files cannot be written to a folder, or would replace others that nobody said to replace."""
    check_writable(folder)
    there = [name for name in names if (folder / name).exists()]
    if there and not force:
        it = "it" if len(there) == 1 else "them"
        raise FileExistsError(
            f"{folder} already has {', '.join(there)}: replace {it} with --force, or choose another --out"
        )
