"""A folder of pictures whose labels are the names of the folders that contain them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fwshapley._internal.wording import counted, listed
from fwshapley.cli.pictures.files import find_images
from fwshapley.tables.labels import Classes
from fwshapley.tables.targets import Task


@dataclass(frozen=True, eq=False)
class ClassFolder:
    """Pictures by class: the folder of a class contains its pictures, also in folders below.

    Attributes:
        path: of the folder.
        files: the pictures, in the order of their paths.
        y: position of each label among the classes.
        classes: names of the folders with pictures, in order.
        notes: what to know about them.
    """

    path: Path
    files: tuple[Path, ...]
    y: NDArray[np.int64]
    classes: Classes
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.files)

    @property
    def names(self) -> tuple[str, ...]:
        """Paths of the pictures below the folder."""
        return tuple(map(self.name_of, range(len(self))))

    def name_of(self, picture: int) -> str:
        """Path of a picture below the folder."""
        return self.files[picture].relative_to(self.path).as_posix()

    @property
    def labels(self) -> list[str]:
        """Label of each picture."""
        return [self.classes.names[number] for number in self.y.tolist()]

    def digest(self) -> str:
        """Hash of the names and contents of all files."""
        state = hashlib.blake2b(digest_size=16)
        for name, file in zip(self.names, self.files, strict=True):
            content = hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
            state.update(f"{name}\n{content}\n".encode())
        return state.hexdigest()

    def without(self, names: Collection[str]) -> ClassFolder:
        """Return the folder without some pictures, given by their paths below it."""
        dropped = {self.path / name for name in names}
        kept = [place for place, file in enumerate(self.files) if file not in dropped]
        gone = [self.classes.names[number] for number in sorted(set(self.y.tolist()) - set(self.y[kept].tolist()))]
        if gone:
            raise ValueError(
                f"no picture of {listed(gone)} in {self.path} can be read: replace them, or remove the class"
            )
        files = tuple(self.files[place] for place in kept)
        return ClassFolder(self.path, files, self.y[kept], self.classes, self.notes)

    def find_reference(self, path: Path) -> ClassFolder:
        """Find the pictures of another folder with the same classes, or some of them."""
        files, labels = _find_labels(path)
        unknown = sorted(set(labels) - set(self.classes.names))
        if unknown:
            raise ValueError(
                f"{path} has classes that {self.path} does not have: {listed(unknown)}; move these folders away, or "
                "rename them"
            )
        unseen = [name for name in self.classes.names if name not in set(labels)]
        note = f"no picture has label {listed(unseen)}: pictures of {self.path.name} with it get negative values or 0"
        return ClassFolder(path, files, self.classes.positions(labels), self.classes, (note,) if unseen else ())


@dataclass(frozen=True, eq=False)
class Pictures(ClassFolder):
    """Labeled pictures with features.

    Attributes:
        x: features, a row per picture.
        how: how the features were computed, JSON-compatible.
    """

    x: NDArray[np.float32] | NDArray[np.float64]
    how: Mapping[str, Any]

    noun: ClassVar[str] = "picture"
    key: ClassVar[str] = "file"
    about_keys: ClassVar[str] = "file: path below the folder"
    task: ClassVar[Task] = "classification"

    @classmethod
    def of(
        cls,
        folder: ClassFolder,
        x: NDArray[np.float32] | NDArray[np.float64],
        notes: Iterable[str],
        how: Mapping[str, Any],
    ) -> Pictures:
        """Return the pictures of a folder with their features, and notes on how these were computed."""
        return cls(folder.path, folder.files, folder.y, folder.classes, tuple(notes), x, how)

    @property
    def keys(self) -> tuple[str, ...]:
        """File of each picture."""
        return self.names

    @property
    def origin(self) -> dict[str, Any]:
        """Where the pictures and their features come from, JSON-compatible."""
        return {"folder": self.path.name, "files": self.digest(), "order": "by path", **self.how}


def find_pictures(path: Path) -> ClassFolder:
    """Find the pictures of a folder and their labels, without reading them."""
    files, labels = _find_labels(path)
    names = sorted(set(labels), key=lambda name: (0, int(name), name) if name.isdecimal() else (1, 0, name))
    if len(names) == 1:
        raise ValueError(
            f"every picture in {path} is in the folder {names[0]}: at least 2 classes are needed. Make one folder per "
            "class, as in photos/cat/1.png"
        )
    empty = sorted(folder.name for folder in path.iterdir() if folder.is_dir() and folder.name not in set(names))
    notes = (f"folders without pictures left out: {listed(empty)}",) if empty else ()
    classes = Classes(tuple(names), numeric=False)
    return ClassFolder(path, files, classes.positions(labels), classes, notes)


def _find_labels(path: Path) -> tuple[tuple[Path, ...], list[str]]:
    """Return pictures, and the name of the folder in `path` that contains each."""
    if not path.is_dir():
        raise FileNotFoundError(f"there is no folder {path}")
    files = tuple(find_images(path))
    inside = [file.relative_to(path).parts for file in files]
    loose = [parts[0] for parts in inside if len(parts) == 1]
    if loose:
        raise ValueError(
            f"{counted(len(loose), 'picture')} in {path} without a label: {listed(loose, most=3)}. Put each into the "
            "folder of its class, as in photos/cat/1.png"
        )
    return files, [parts[0] for parts in inside]
