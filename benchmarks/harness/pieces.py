"""Partial results in files of their own: an interrupted run continues, and parts from several machines are joined."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fwshapley
from benchmarks.harness.record import command_line, machine
from fwshapley._internal.files import written_whole

PACKAGES = ("torch", "scikit-learn")


def keep_piece(path: Path, piece: Mapping[str, Any], device: str) -> None:
    """Write a partial result atomically, with machine, date, command and versions."""
    versions = {"python": platform.python_version()} | {each: version(each) for each in PACKAGES}
    how = {"command": command_line(), "date": f"{datetime.now(UTC):%Y-%m-%d}", "versions": versions}
    where = {"machine": machine(device), "device": device, "code": fingerprint()}
    text = json.dumps({**piece, **where, **how}, allow_nan=False)
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_piece(path: Path) -> dict[str, Any] | None:
    """Return a partial result, or None if there is none."""
    if not path.exists():
        return None
    piece: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return piece


def take_piece(path: Path, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a partial result, or None; end with a message if it was made with other settings."""
    piece = read_piece(path)
    for name, made in (piece or {}).get("settings", {}).items():
        if name in settings and made != settings[name]:
            raise SystemExit(
                f"{path} was made with {name} {made}, not {settings[name]}: give another --work (a smoke run: --out), "
                "or delete it"
            )
    return piece


def fingerprint() -> str:
    """Hash of the code of the package, which tells pieces of different versions apart."""
    files = sorted(Path(fwshapley.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()[:8]


def origin(piece: Mapping[str, Any]) -> str:
    """Machine and versions of a piece, as "machine; versions"; early pieces have no versions."""
    where = piece["machine"]
    on_cpu = piece["device"] == "cpu" if "device" in piece else "--device cpu" in piece.get("command", "")
    name = f"{where['cores']} cores of {where['processor']}" if on_cpu or not where["gpu"] else where["gpu"]
    versions = ", ".join(f"{package} {number}" for package, number in piece.get("versions", {}).items())
    return f"{name}; {versions}" if versions else name


def commands(pieces: Iterable[Mapping[str, Any]]) -> list[str]:
    """All commands that made the pieces."""
    return sorted({piece["command"] for piece in pieces if "command" in piece})


def origins(pieces: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, list[str]]:
    """Machines and versions of each part, from its pieces."""
    return joined_origins({part: [origin(piece)]} for part, piece in pieces)


def joined_origins(several: Iterable[Mapping[str, Sequence[str]]]) -> dict[str, list[str]]:
    """Machines and versions of each part, from several dictionaries of them, without repetition."""
    found: dict[str, dict[str, None]] = {}
    for parts in several:
        for part, places in parts.items():
            found.setdefault(part, {}).update(dict.fromkeys(places))
    return {part: list(places) for part, places in found.items()}
