"""A folder of pictures whose labels are the names of the folders they lie in."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fwshapley._internal.wording import counted, listed
from fwshapley.cli.images.files import find_images
from fwshapley.tables.labels import Classes


@dataclass(frozen=True, eq=False)
class ClassFolder:
    """Pictures by class: those of a class lie in the folder of its name, or anywhere below that.

    Attributes:
        path: of the folder.
        files: the pictures, in the order of their paths.
        y: place of each label among the classes.
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
        """Fingerprint of the names and contents of all files."""
        found = hashlib.blake2b(digest_size=16)
        for name, file in zip(self.names, self.files, strict=True):
            content = hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
            found.update(f"{name}\n{content}\n".encode())
        return found.hexdigest()

    def without(self, names: Collection[str]) -> ClassFolder:
        """Return the folder without some pictures, which are named by their paths below it."""
        dropped = {self.path / name for name in names}
        kept = [place for place, file in enumerate(self.files) if file not in dropped]
        gone = [self.classes.names[number] for number in sorted(set(self.y.tolist()) - set(self.y[kept].tolist()))]
        if gone:
            raise ValueError(f"no picture of {listed(gone)} in {self.path} can be read: mend them, or remove the class")
        files = tuple(self.files[place] for place in kept)
        return ClassFolder(self.path, files, self.y[kept], self.classes, self.notes)

    def find_reference(self, path: Path) -> ClassFolder:
        """Find the pictures of another folder with the same classes, or some of them."""
        files, labels = _find_labels(path)
        unknown = sorted(set(labels) - set(self.classes.names))
        if unknown:
            raise ValueError(
                f"{path} has classes that {self.path} does not have: {listed(unknown)}; no picture can be of use for "
                "those, so move them away, or mend their names"
            )
        without = [name for name in self.classes.names if name not in set(labels)]
        harm = f"no picture of {listed(without)}: pictures of {self.path.name} with that label can only seem to do harm"
        return ClassFolder(path, files, _codes(labels, self.classes), self.classes, (harm,) if without else ())


def find_pictures(path: Path) -> ClassFolder:
    """Find the pictures of a folder and their labels, without reading them."""
    files, labels = _find_labels(path)
    names = sorted(set(labels), key=lambda name: (0, int(name), name) if name.isdecimal() else (1, 0, name))
    if len(names) == 1:
        raise ValueError(
            f"every picture in {path} is in the folder {names[0]}: one class leaves nothing to tell apart. A folder of "
            "pictures has one for each class, as in photos/cat/1.png"
        )
    empty = sorted(each.name for each in path.iterdir() if each.is_dir() and each.name not in set(names))
    notes = (f"folders without pictures left out: {listed(empty)}",) if empty else ()
    classes = Classes(tuple(names), numeric=False)
    return ClassFolder(path, files, _codes(labels, classes), classes, notes)


def _find_labels(path: Path) -> tuple[tuple[Path, ...], list[str]]:
    """Return pictures, and the folder below `path` that each lies in."""
    if not path.is_dir():
        raise FileNotFoundError(f"there is no folder {path}")
    files = tuple(find_images(path))
    inside = [file.relative_to(path).parts for file in files]
    loose = [parts[0] for parts in inside if len(parts) == 1]
    if loose:
        raise ValueError(
            f"{counted(len(loose), 'picture')} in {path} without a label: {listed(loose, most=3)}. Put each in the "
            "folder of its class, as in photos/cat/1.png"
        )
    return files, [parts[0] for parts in inside]


def _codes(labels: Sequence[str], classes: Classes) -> NDArray[np.int64]:
    places = {name: place for place, name in enumerate(classes.names)}
    return np.array([places[label] for label in labels], np.int64)
