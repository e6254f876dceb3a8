"""Data to audit: a table as a DataFrame, an .npz file as an array, a folder as features of pictures or as pixels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fwshapley._internal.wording import counted, listed
from fwshapley.audit.photo_network import NAME, has_photo_network
from fwshapley.cli.input_format import InputFormat
from fwshapley.cli.pictures.features import Backbone, read_pixels
from fwshapley.cli.pictures.labeled_folder import ClassFolder, Pictures, find_pictures
from fwshapley.cli.pictures.photo_features import read_photos
from fwshapley.tables.labeled_table import Table, read_table

NO_BACKBONE = "none"


class PictureOptions(NamedTuple):
    """How pictures are read.

    Attributes:
        wanted: their format, as far as it is known.
        backbone: where features come from; None is the pre-trained network if it is installed.
        device: where networks run.
        kept: folder in which features are kept.
        resume: use those that are there.
    """

    wanted: InputFormat
    backbone: str | None
    device: str
    kept: Path
    resume: bool


@dataclass(frozen=True, eq=False)
class AuditedData:
    """Labeled data in the form that `LabelAudit` takes.

    Attributes:
        source: where they come from.
        features: a DataFrame, an array, or pixels.
        labels: label of each point, as text.
    """

    source: Table | Pictures
    features: Any
    labels: Sequence[str]

    @property
    def keys(self) -> Sequence[str]:
        """What the points are called."""
        return self.source.keys


def read_to_audit(
    path: Path, label: str | None, *, encoding: str, ignore: Collection[str], pictures: PictureOptions
) -> AuditedData:
    """Read a table, an .npz file, or a folder with one folder of pictures per class."""
    if path.is_dir():
        folder = _read_folder(find_pictures(path), pictures)
        return AuditedData(folder, folder.x, folder.labels)
    table = read_table(path, label, task="classification", encoding=encoding, ignore=ignore)
    if table.classes.numeric and not all(float(name).is_integer() for name in table.classes.names):
        raise ValueError(
            f"column {table.label} of {path} has numbers that are not whole ({listed(table.classes.names, most=3)}): "
            "an audit is of classes. For numbers to predict, use fwshapley value"
        )
    return _of_table(table)


def read_test(path: Path, points: AuditedData, pictures: PictureOptions) -> AuditedData:
    """Read other data of the same form."""
    if isinstance(points.source, Table):
        return _of_table(points.source.read_reference(path))
    others = points.source.find_reference(path)
    folder = _read_folder(others, pictures._replace(kept=pictures.kept / "test"))
    return AuditedData(folder, folder.x, folder.labels)


def _of_table(table: Table) -> AuditedData:
    labels = [table.classes.names[number] for number in table.y.tolist()]
    features = table.frame if table.is_spreadsheet else table.frame.to_numpy(np.float64)
    return AuditedData(table, features, labels)


def _read_folder(folder: ClassFolder, options: PictureOptions) -> Pictures:
    """Return the pictures of a folder with features, or with pixels if networks are to be trained on them."""
    backbone = options.backbone or (NAME if has_photo_network() else NO_BACKBONE)
    if backbone == NAME:
        return read_photos(folder, options.kept / "features.safetensors", resume=options.resume, device=options.device)
    trained = backbone == NO_BACKBONE
    network = None if trained else Backbone(backbone, options.device)
    readable, images, wanted, skipped = read_pixels(folder, options.wanted, trained=trained)
    x: Any = images if network is None else network(images)
    note = (
        "Features: networks are trained on the pictures, which takes many pictures; for photographs, install "
        "fwshapley[backbone], or name a --backbone"
        if network is None
        else f"Features: {counted(x.shape[1], 'output')} of {network.name}"
    )
    how = {"features": backbone, "size": str(wanted.size), "color": wanted.color, "skipped": skipped}
    return Pictures.of(readable, x, [*readable.notes, note], how)
