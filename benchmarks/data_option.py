"""The options `--data` and `--device` of several benchmarks: they say in a line what is missing, and read data."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # pyDVL's environment, which valuation_speed.py runs in, does not have it
    from fwshapley.datasets import LabelledImages
    from fwshapley.datasets.packed import Split
    from fwshapley.datasets.sources import Name


def existing_path(text: str) -> Path:
    """Return a path that exists: the `type=` of `--data`."""
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"there is no file or folder {path}")
    return path


def existing_device(text: str) -> str:
    """Return a device that can be used here: the `type=` of `--device`."""
    if text == "cpu":  # nothing to ask torch, which takes memory that one script measures
        return text
    import torch  # noqa: PLC0415 - see above

    try:
        torch.empty(1, device=text)
    except (RuntimeError, AssertionError) as error:  # the latter where torch was built without it
        raise argparse.ArgumentTypeError(f"torch has no {text!r} here: {str(error).splitlines()[0]}") from error
    return text


def name_of(path: Path, parser: argparse.ArgumentParser) -> Name:
    """Which data set a path holds, by its own name."""
    from fwshapley.datasets.sources import DATASETS  # noqa: PLC0415 - see above

    found = [name for name in DATASETS if path.stem.startswith(name)]
    if not found:
        parser.error(f"{path} is none of {', '.join(DATASETS)} by its name")
    return found[0]


def read_data(name: Name, path: Path, split: Split = "train", *, least: int = 0) -> LabelledImages:
    """Return images of a data set, or end with a line on what is missing, too little, damaged or of another data set.

    Args:
        name: of the data set.
        path: npz file, folder with the official files, or that folder's own, named as the data set.
        split: "train" or "test".
        least: number of images that are needed.
    """
    from fwshapley.datasets import load  # noqa: PLC0415 - see above

    try:
        found = load(name, _root_of(name, path, split), split=split)
    except (ImportError, OSError, ValueError) as error:
        raise SystemExit(f"--data {path}: {error}") from error
    if len(found.labels) < least:
        raise SystemExit(
            f"--data {path}: there are {len(found.labels):,} images of {name} to {split}, and {least:,} are needed"
        )
    return found


def _root_of(name: Name, path: Path, split: Split) -> Path:
    """Where to look: in the path given, or one up if the files in that are only found from there."""
    from fwshapley.datasets.sources import DATASETS  # noqa: PLC0415 - see above

    find = DATASETS[name].find
    above = None if path.name != name or find(path, split) else find(path.parent, split)
    return path.parent if above and path in above[0].parents else path


def need_data(parser: argparse.ArgumentParser, arguments: argparse.Namespace, what_for: str = "") -> None:
    """End with a message unless data were given or a smoke run was asked for, which takes none; or if both were."""
    if arguments.data and arguments.smoke:
        parser.error("--smoke takes no --data: it runs on what is bundled or made up")
    if not arguments.data and not arguments.smoke:
        parser.error(f"--data is needed{f' for {what_for}' if what_for else ''}, or --smoke")
