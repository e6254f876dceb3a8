"""Features of the pictures of a folder by the pre-trained network of `fwshapley.audit`, a batch of files at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fwshapley._internal.progress import ProgressBar
from fwshapley._internal.safetensors_file import check_same_run, load_bundle, save_bundle
from fwshapley.audit.photo_network import BATCH, NAME, SIDE, PhotoNetwork
from fwshapley.cli.pictures.files import MAX_UNREADABLE, Size, UnreadableError, about_skipped, load_pixels
from fwshapley.cli.pictures.labeled_folder import ClassFolder, Pictures

KIND = "features of pictures"
SAVE_SECONDS = 20.0


def read_photos(folder: ClassFolder, kept: Path, *, resume: bool, device: str) -> Pictures:
    """Return the pictures of a folder with their features; those that cannot be read are left out.

    Args:
        folder: of the pictures.
        kept: file in which the features are kept.
        resume: use the features that are kept there.
        device: where the network runs.
    """
    identity = {"files": folder.digest(), "network": NAME, "side": SIDE}
    features = np.empty((0, 0), dtype=np.float32)
    skipped: list[int] = []
    done = 0
    if resume and kept.exists():
        facts, arrays = load_bundle(kept, KIND)
        check_same_run(kept, facts["identity"], identity)
        features, skipped, done = arrays["features"], facts["skipped"], facts["done"]
    if done < len(folder):
        features, skipped = _compute(folder.files, kept, identity, (features, skipped, done), device)
    if len(skipped) > MAX_UNREADABLE * len(folder):
        raise UnreadableError(f"{len(skipped):,} of {len(folder):,} files of {folder.path} cannot be read as pictures")
    readable = folder.without([folder.name_of(picture) for picture in skipped]) if skipped else folder
    about = f"Features: {features.shape[1]:,} outputs of EfficientNet-Lite0, trained on ImageNet"
    notes = [*folder.notes, f"{about}; --backbone none trains networks on the pictures instead"]
    if skipped:
        notes.append(about_skipped([folder.files[picture] for picture in skipped], len(folder)))
    return Pictures.of(readable, features, notes, {"features": NAME, "side": SIDE})


def _compute(
    files: Sequence[Path],
    kept: Path,
    identity: dict[str, Any],
    start: tuple[NDArray[np.float32], list[int], int],
    device: str,
) -> tuple[NDArray[np.float32], list[int]]:
    """Compute features from where an earlier run was stopped; save them every 20 seconds and in the end."""
    network = PhotoNetwork(device)
    before, skipped, done = start
    parts = [before] if done else []
    saved = time.monotonic()
    with ProgressBar("computing features", len(files) - done) as bar:
        for first in range(done, len(files), BATCH):
            batch = []
            for picture in range(first, min(first + BATCH, len(files))):
                try:
                    batch.append(load_pixels(files[picture], Size(SIDE, SIDE), "rgb"))
                except UnreadableError:
                    skipped.append(picture)
            if batch:
                parts.append(network(torch.from_numpy(np.stack(batch)).float() / 255))
            done = min(first + BATCH, len(files))
            bar.advance(done - first)
            if time.monotonic() - saved > SAVE_SECONDS or done == len(files):
                arrays = {"features": np.concatenate(parts) if parts else before}
                save_bundle(kept, KIND, {"identity": identity, "skipped": skipped, "done": done}, arrays)
                saved = time.monotonic()
    return np.concatenate(parts) if parts else before, skipped
