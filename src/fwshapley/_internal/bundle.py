"""Tensors and facts in one safetensors file: written whole, checked when read, never pickled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fwshapley._internal.files import written_whole

FORMAT, VERSION = "fwshapley", "2"


def save_bundle(path: Path, kind: str, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write tensors with a JSON description of what they are."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps(facts)
    metadata = {"format": FORMAT, "version": VERSION, "kind": kind, "facts": text, "digest": digest(plain, text)}
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
            if metadata["version"] != VERSION:
                raise ValueError(f"{path} is of format {metadata['version']}, this fwshapley reads format {VERSION}")
            facts: dict[str, Any] = json.loads(metadata["facts"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            if metadata["digest"] != digest(tensors, metadata["facts"]):
                raise ValueError(f"{path} is damaged: it does not hold what was saved")
            return facts, tensors
    except (SafetensorError, json.JSONDecodeError, KeyError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def digest(tensors: Mapping[str, Tensor], text: str = "") -> str:
    """Fingerprint of tensors and a text, to tell them from any others."""
    found = hashlib.blake2b(text.encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        plain = tensor.detach().cpu().contiguous()
        found.update(f"{name} {plain.dtype} {tuple(plain.shape)}".encode())
        found.update(plain.flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
