"""Where recorded figures come from, in a line for the pages: command, machines, time, versions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from fwshapley.cli.reproduce import measured_on, time_spent
from page_text import listed

Document = Mapping[str, Any]

RECOMPRESSED = re.compile(r"([\w-]+)_jpeg(\d+)\.npz")
"""A data file whose images were recompressed: the name of the data set, and the quality."""


def provenance(document: Document) -> str:
    """Return one line on a run that was recorded as it was made."""
    packages = ", ".join(f"{name} {version}" for name, version in document["versions"].items() if name != "fwshapley")
    seeds = len(document["seeds"])
    return (
        f"`{without_folders(document['command'])}`, {listed(measured_on(document))}, {time_spent(document)}, "
        f"{seeds} seed{'s' * (seeds != 1)}, {document['date'][:10]}; {packages}."
    )


def joined_provenance(document: Document) -> str:
    """Return one line on a run whose parts were made here and there, and joined."""
    places: dict[str, list[str]] = {}
    for part, several in document["results"]["machines"].items():
        for where in several:
            places.setdefault(where, []).append(part)
    made = "; ".join(f"{listed(parts)} on {where}" for where, parts in places.items())
    return f"{calls_text(document)}, {document['date'][:10]}, {document['wall_time_s']:.0f} s in all: {made}."


def calls_text(document: Document) -> str:
    """Return the call that parts were made by, or how many calls there were."""
    calls = document["results"]["commands"]
    return f"`{without_folders(calls[0])}`" if len(calls) == 1 else f"`{script_of(calls[0])}`, {len(calls)} calls"


def script_of(command: str) -> str:
    """Return what was run, without its options."""
    return shlex.join(shlex.split(command)[:2])


def recompressed_text(documents: Iterable[Document]) -> str:
    """Say of which images, by the names of the files that commands were given, JPEG has lost a little."""
    told = [f"`{name}_jpeg{quality}.npz` as JPEG of quality {quality}" for name, quality in recompressed(documents)]
    return f"Not all images are the official pixels; recompressed: {listed(told)}.\n\n" if told else ""


def recompressed_shortly(documents: Iterable[Document], titles: Mapping[str, str]) -> str:
    """Say the same in a sentence for the first page, by the titles of data sets."""
    by_quality: dict[str, list[str]] = {}
    for name, quality in recompressed(documents):
        by_quality.setdefault(quality, []).append(titles.get(name, name))
    told = [
        f"those of {listed(names)} were recompressed (JPEG, quality {quality})" for quality, names in by_quality.items()
    ]
    return f"Not all images are the official pixels: {listed(told)}." if told else ""


def recompressed(documents: Iterable[Document]) -> list[tuple[str, str]]:
    """Return the names of data sets whose images were recompressed, with the quality."""
    commands = [
        command for document in documents for command in (document["command"], *document["results"].get("commands", []))
    ]
    return sorted({(match[1], match[2]) for command in commands for match in RECOMPRESSED.finditer(command)})


def without_folders(command: str) -> str:
    """Return what was run, files without the folders they happened to be in."""
    interpreter, script, *options = shlex.split(command)
    return shlex.join([interpreter, script, *(bare(each) for each in options)])


def bare(argument: str) -> str:
    """Return the name of a file; all else as it is."""
    path = PurePath(argument)
    return path.name if path.suffix and "=" not in argument else argument
