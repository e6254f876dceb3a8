"""Options of the commands that read labeled data, tables or folders of pictures, and how they exclude each other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

reading = partial(typer.Option, rich_help_panel="Input")
writing = partial(typer.Option, rich_help_panel="Output")
pictured = partial(typer.Option, rich_help_panel="Folders of pictures")

DATA_HELP = (
    "A .csv (also .csv.gz), .parquet or .xlsx file (also file.xlsx:sheet), an .npz file with arrays x and y, or a "
    "folder of pictures with one folder per class."
)
SIZE_HELP = "Resize pictures, e.g. to 64x64; by default they keep their size, at most 32x32 without a --backbone."
BACKBONE_HELP = (
    "Take features from this network instead of training networks: package.module:attribute or file.py:attribute "
    "(both run code), or a .pt2 file of torch.export."
)

Data = Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP)]
Ignored = Annotated[list[str] | None, reading("--ignore", metavar="COLUMN", help="Column to ignore; may be repeated.")]
Encoding = Annotated[str | None, reading(metavar="NAME", help="Text encoding of .csv files, e.g. cp1252.")]
PictureSize = Annotated[str | None, pictured(metavar="HxW", help=SIZE_HELP)]
Gray = Annotated[bool | None, pictured("--gray/--rgb", help="Color of pictures; by default unchanged.")]
Means = Annotated[str | None, pictured(metavar="X,X,X", help="For a --backbone: subtract from channels.")]
Deviations = Annotated[str | None, pictured(metavar="X,X,X", help="For a --backbone: divide channels by it.")]
Out = Annotated[Path, writing("--out", "-o", metavar="FOLDER", help="Folder for the results.")]
Top = Annotated[int, writing(min=1, metavar="N", help="Number of suspicious points to show.")]
Force = Annotated[bool, writing("--force", help="Replace results in the folder.")]

Options = Mapping[str, object]
"""Options by name; None or False if an option was not given."""


def refuse(options: Options, why: str) -> None:
    """Raise an error that names the first option that was given, and why it does not apply."""
    for name, option in options.items():
        if option is not None and option is not False:
            raise ValueError(f"{name} {why}")


def refuse_others(data: Path, *, of_tables: Options, of_pictures: Options) -> None:
    """Raise an error if an option was given that is for the other kind of data, tables or folders of pictures."""
    if data.is_dir():
        refuse(of_tables, f"is for tables, and {data} is a folder of pictures")
    else:
        refuse(of_pictures, f"is for folders of pictures; {data} is not a folder")
