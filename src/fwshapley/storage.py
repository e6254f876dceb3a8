"""Tensors and facts in one safetensors file: written whole, checked when read, never pickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fwshapley.files import written_whole

FORMAT = "fwshapley"


def save_bundle(path: Path, kind: str, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write tensors with a JSON description of what they are."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    metadata = {"format": FORMAT, "kind": kind, "facts": json.dumps(facts)}
    with written_whole(path) as temporary:
        save_file(plain, temporary, metadata=metadata)


def load_bundle(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what `save_bundle` wrote; a damaged, foreign or swapped file is refused by name."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: expected a file with the {kind}, as fwshapley saves it")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise ValueError(f"{path} was not written by fwshapley")
            if metadata.get("kind") != kind:
                raise ValueError(f"{path} holds the {metadata.get('kind')}, not the {kind}")
            facts: dict[str, Any] = json.loads(metadata["facts"])
            return facts, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, json.JSONDecodeError, KeyError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
