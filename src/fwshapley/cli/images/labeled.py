"""Labeled pictures as features to value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fwshapley.cli.images.folder import ClassFolder
from fwshapley.tables.labels import Classes


@dataclass(frozen=True, eq=False)
class Pictures:
    """Labeled pictures as features.

    Attributes:
        folder: that they come from.
        x: features, a row per picture.
        notes: what was done, in short sentences.
        how: how features came about, as JSON holds it.
        noun: what a point is called.
        key: what says which point it is.
        whole: what all of them are called.
    """

    folder: ClassFolder
    x: NDArray[np.float32] | NDArray[np.float64]
    notes: tuple[str, ...]
    how: Mapping[str, Any]

    noun: ClassVar[str] = "picture"
    key: ClassVar[str] = "file"
    whole: ClassVar[str] = "pictures"
    about_keys: ClassVar[str] = "file: below the folder"

    def __len__(self) -> int:
        return len(self.folder)

    @property
    def path(self) -> Path:
        """Where they are."""
        return self.folder.path

    @property
    def y(self) -> NDArray[np.int64]:
        """Place of each label among the classes."""
        return self.folder.y

    @property
    def classes(self) -> Classes:
        """What the labels may be, in order."""
        return self.folder.classes

    @property
    def keys(self) -> tuple[str, ...]:
        """File of each picture."""
        return self.folder.names

    @property
    def origin(self) -> dict[str, Any]:
        """Return where the pictures and their features come from, as JSON holds it."""
        return {"folder": self.path.name, "files": self.folder.digest(), "order": "by path", **self.how}
