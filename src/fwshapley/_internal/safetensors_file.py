"""Arrays and facts in one safetensors file: written completely, verified when read, never pickled.

A file contains numpy arrays or torch tensors; those of numpy are read and written without importing torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from fwshapley._internal.arrays import is_tensor, to_numpy
from fwshapley._internal.files import check_writable_file, written_whole

FORMAT = "fwshapley"
VERSION = "3"


class Bundle(NamedTuple):
    """What a file contains."""

    facts: dict[str, Any]
    arrays: dict[str, Any]


def save_bundle(path: Path, kind: str, facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write arrays with a JSON description of what they are.

    Args:
        path: the file; an existing one is replaced.
        kind: what the file contains, e.g. "attribution".
        facts: anything that JSON can hold.
        arrays: numpy arrays or torch tensors; if one is a tensor, all are read back as tensors.
    """
    text = json.dumps(facts)
    if any(map(is_tensor, arrays.values())):
        import torch  # noqa: PLC0415 - the caller has imported it
        from safetensors.torch import save_file  # noqa: PLC0415 - imports torch

        framework = "pt"
        tensors = {name: torch.as_tensor(array) for name, array in arrays.items()}
        plain: dict[str, Any] = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    else:
        from safetensors.numpy import save_file  # type: ignore[assignment]  # noqa: PLC0415 - the same for numpy

        framework = "np"
        plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "framework": framework,
        "facts": text,
        "digest": digest(plain, text),
    }
    check_writable_file(path, "path")
    with written_whole(path) as temporary:
        save_file(plain, temporary, metadata=metadata)


def load_bundle(path: Path, kind: str) -> Bundle:
    """Read what `save_bundle` wrote; raise an error that names the file if it is damaged or of another kind."""
    metadata = read_metadata(path, kind)
    if metadata["kind"] != kind:
        raise ValueError(f"{path} contains a saved {metadata['kind']}, expected a saved {kind}")
    try:
        with safe_open(path, framework=metadata["framework"]) as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        if metadata["digest"] != digest(arrays, metadata["facts"]):
            raise ValueError(f"{path} is damaged: its contents differ from what was saved")
        return Bundle(json.loads(metadata["facts"]), arrays)
    except (SafetensorError, json.JSONDecodeError, KeyError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def read_metadata(path: Path, kind: str = "result") -> dict[str, str]:
    """Read what a file says about itself; its "kind" names what it contains.

    Args:
        path: the file.
        kind: what to call the expected contents in errors.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: expected a file with a saved {kind}")
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
        if metadata.get("format") != FORMAT:
            raise ValueError(f"{path} was not written by fwshapley")
        if metadata["version"] != VERSION:
            raise ValueError(f"{path} has format {metadata['version']}; this version of fwshapley reads {VERSION}")
        return {name: metadata[name] for name in ("kind", "framework", "facts", "digest")}
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def check_same_run(path: Path, saved: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    """Raise an error that names what differs, unless a checkpoint belongs to the run that is to be resumed.

    Args:
        path: the checkpoint.
        saved: what identifies the run that wrote it.
        current: what identifies the run to be resumed.
    """
    changed = [name for name, value in current.items() if saved.get(name) != value]
    if changed:
        verb = "differs" if len(changed) == 1 else "differ"
        raise ValueError(
            f"{path} is the checkpoint of another run: {', '.join(changed)} {verb}; resume with the same data and "
            "arguments, or start again with resume=False"
        )


def digest(arrays: Mapping[str, Any], text: str = "") -> str:
    """Hash of arrays and a text, to tell them from any others."""
    state = hashlib.blake2b(text.encode(), digest_size=16)
    for name, array in sorted(arrays.items()):
        dtype = str(array.dtype).removeprefix("torch.")
        state.update(f"{name} {dtype} {tuple(array.shape)}".encode())
        state.update(_to_bytes(array))
    return state.hexdigest()


def _to_bytes(array: Any) -> bytes:  # noqa: ANN401 - of numpy or torch
    if is_tensor(array):  # numpy has no bfloat16, so the bytes are taken from torch
        import torch  # noqa: PLC0415 - the caller has imported it

        array = array.detach().cpu().contiguous().flatten().view(torch.uint8)
    return to_numpy(array).tobytes()
