"""How files become inputs of a model: found when an explainer is fitted, and used again when it explains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fwshapley._internal.wording import counted
from fwshapley.cli.pictures.files import Color, Size
from fwshapley.explanation.inputs.image_layout import Layout

InputKind = Literal["table", "rows", "images", "texts"]
"""Columns of a table (.csv, .parquet, .xlsx) with their names; rows of numbers in an .npz file; images, in pictures or
in an .npz file; texts, a column of a table."""

KIND_NAMES: Mapping[InputKind, str] = {
    "table": "a table with names of columns",
    "rows": "an .npz file of rows of numbers",
    "images": "pictures, or an .npz file of images",
    "texts": "a table with a column of texts",
}


@dataclass(frozen=True)
class InputFormat:
    """How files become inputs. Attributes that are None are inferred from the first file that is read.

    Attributes:
        kind: of inputs.
        columns: of a table, in the order of the model.
        texts: columns of a table that contain text.
        left_out: columns of a table that are not features.
        encoding: of .csv files.
        layout: order of the axes of images in the first file.
        size: of images.
        channels: of images.
        color: of pictures.
        has_bytes: whether images in the first file were bytes.
        scaled: whether bytes are divided by 255.
        mean: subtracted from each channel of images, after that.
        std: divides each channel of images, after that.
    """

    kind: InputKind | None = None
    columns: tuple[str, ...] | None = None
    texts: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()
    encoding: str = "utf-8"
    layout: Layout | None = None
    size: Size | None = None
    channels: int | None = None
    color: Color | None = None
    has_bytes: bool | None = None
    scaled: bool = True
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        wrong = [number for number in self.std or () if not np.float32(number) >= np.finfo(np.float32).tiny]
        if wrong:
            raise ValueError(f"--std must be positive, got {wrong[0]:g}: images are divided by it")

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> InputFormat:
        """Return the format that was saved as JSON."""
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()
        }
        return cls(**plain | {"size": None if plain["size"] is None else Size(*plain["size"])})

    def normalize(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Subtract the mean of images and divide by their deviation, in place, and return them."""
        mean, std = self._constants(images.shape[1])
        if mean is not None:
            images -= mean
        if std is not None:
            images /= std
        return images

    def denormalize(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return images as they were before `normalize`."""
        mean, std = self._constants(images.shape[1])
        scaled = images if std is None else images * std
        return scaled if mean is None else scaled + mean

    def _constants(self, channels: int) -> list[NDArray[np.float32] | None]:
        """Mean and deviation of each channel where they are given, to broadcast against images."""
        for name, constants in (("mean", self.mean), ("std", self.std)):
            if constants and len(constants) not in (1, channels):
                raise ValueError(f"--{name} has {len(constants)} numbers for images of {counted(channels, 'channel')}")
        return [
            np.asarray(numbers, np.float32).reshape(-1, 1, 1) if numbers else None for numbers in (self.mean, self.std)
        ]


def image_format(
    size: str | None,
    gray: bool | None,  # noqa: FBT001 - an option with three values
    mean: str | None,
    std: str | None,
    **others: Any,  # noqa: ANN401 - other attributes
) -> InputFormat:
    """Return the format that options of the command line give."""
    return InputFormat(
        size=None if size is None else Size.parse(size),
        color=None if gray is None else "gray" if gray else "rgb",
        mean=None if mean is None else parse_number_list(mean),
        std=None if std is None else parse_number_list(std),
        **others,
    )


def with_kind(wanted: InputFormat, kind: InputKind, path: Path) -> InputFormat:
    """Return the format with the kind that a file is of, or raise an error if it does not fit."""
    what = f"{path} contains images" if kind == "images" else f"{path} is {KIND_NAMES[kind]}"
    if wanted.kind not in (None, kind):
        raise ValueError(f"{what}, and the explainer takes {KIND_NAMES[wanted.kind]}")
    if kind != "images" and (wanted.mean or wanted.std or wanted.size):
        raise ValueError(f"--size, --mean and --std are for images; {what}")
    if kind != "table" and wanted.left_out:
        raise ValueError(f"there is no column {wanted.left_out[0]} to leave out: {what}")
    return replace(wanted, kind=kind)


def parse_number_list(text: str) -> tuple[float, ...]:
    """Return numbers separated by commas."""
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"{text!r} must be a number, or several separated by commas") from error
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{text!r} must be finite numbers")
    return numbers
