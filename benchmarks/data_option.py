"""The option `--data` of several benchmarks: it says at once what is missing, before anything was computed."""

from __future__ import annotations

import argparse
from pathlib import Path


def existing_path(text: str) -> Path:
    """Return a path that exists: the `type=` of `--data`."""
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"there is no file or folder {path}")
    return path


def need_data(parser: argparse.ArgumentParser, arguments: argparse.Namespace, what_for: str = "") -> None:
    """End with a message unless data were given or a smoke run was asked for, which takes none; or if both were."""
    if arguments.data and arguments.smoke:
        parser.error("--smoke takes no --data: it runs on what is bundled or made up")
    if not arguments.data and not arguments.smoke:
        parser.error(f"--data is needed{f' for {what_for}' if what_for else ''}, or --smoke")
