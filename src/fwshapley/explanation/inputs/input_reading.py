"""Inputs as people have them: arrays, lists, torch's Datasets and DataLoaders, pictures. They become one array.

Pictures (PIL images), their paths and images of bytes are raw: they go through the user's transform, if there is one.
Numbers in floating point are taken as they are.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from fwshapley._internal.checks import Array, shorten
from fwshapley._internal.progress import ProgressBar, announce
from fwshapley._internal.tensor_checks import as_tensor
from fwshapley._internal.wording import counted, listed
from fwshapley.explanation.inputs.image_layout import BATCHES, Layout, channels_first, recognize_layout
from fwshapley.explanation.inputs.model_functions import describe_failure
from fwshapley.players import Players
from fwshapley.text_players import TextPlayers

Transform = Callable[[Any], Any]
"""Makes a tensor or an array of a picture: (channels, height, width), or with channels last."""

Items = DataLoader[Any] | Dataset[Any] | Sequence[Any] | ndarray | Tensor
"""Inputs that are read one after the other, or batch by batch."""

IMAGE_ENTRIES = ("pixel_values", "image")
"""Entries of a Dataset's items that are images."""

IMAGE_AXES = 3


class ReadInputs(NamedTuple):
    """Inputs after reading.

    Attributes:
        x: a batch, an array that `check_inputs` accepts; images have channels first.
        layout: the order of the axes of images in which they were passed.
        is_new: whether x was collected, so that nobody else has it.
    """

    x: Array
    layout: Layout
    is_new: bool


def read_inputs(
    x: Any,  # noqa: ANN401 - inputs in any form
    name: str,
    *,
    players: Players | None,
    of_images: bool = False,
    channels: int | None = None,
    forms: Sequence[str] = BATCHES,
    transform: Transform | None = None,
    progress: bool = False,
) -> ReadInputs:
    """Return inputs in any form as one array, or raise an error that names the argument.

    Args:
        x: an array, a list of arrays or pictures, a Dataset, a DataLoader, or a picture.
        name: of the argument.
        players: those of images give the height and width of an image.
        of_images: whether inputs are images also if there are no players that say so.
        channels: of images; None if it is not known yet.
        forms: what the axes of images may be.
        transform: of raw images.
        progress: show progress where it may take long, and say how much memory the inputs take.
    """
    if isinstance(players, TextPlayers):
        return ReadInputs(torch.from_numpy(players.read(x, name)), "NCHW", is_new=True)
    is_image = of_images or (players is not None and players.is_image)
    allow_one = any("N" not in form for form in forms)
    items = _as_items(x, is_image=is_image, allow_one=allow_one, transform=transform)
    if items is None:
        x = as_array(x, name)
        _tell_bytes(name, getattr(x, "dtype", None), enabled=progress and is_image)
    else:
        x = _collect(items, name, transform=transform, is_image=is_image, progress=progress)
    shape = tuple(getattr(x, "shape", ()))
    if not is_image or not shape:
        return ReadInputs(x, "NCHW", is_new=items is not None)
    sides = None if players is None else (players.assignment.shape[0], players.assignment.shape[1])
    recognized = recognize_layout(name, shape, sides, channels, forms)
    if recognized is None:
        expected = ", ".join(map(str, ("batch", channels or "channels", *(sides or ("height", "width")))))
        known = " for these players" * (players is not None) + " and as in fit" * (channels is not None)
        raise ValueError(f"{name} must have shape ({expected}){known}, or channels last; got {shape}")
    layout, is_single = recognized
    return ReadInputs(channels_first(x[None] if is_single else x, layout), layout, is_new=items is not None)


def as_array(x: Array, name: str) -> Array:
    """Return lists as numpy arrays, since torch would round them to single precision; anything else unchanged."""
    if not isinstance(x, list | tuple):
        return x
    try:
        return np.asarray(x)
    except ValueError as error:
        raise TypeError(f"{name} must be an array of numbers, got {shorten(x)}") from error


def _as_items(
    x: Any,  # noqa: ANN401 - inputs in any form
    *,
    is_image: bool,
    allow_one: bool,
    transform: Transform | None,
) -> Items | None:
    """Return inputs that have to be read one after the other; None for arrays, which are batches already."""
    if isinstance(x, DataLoader | Dataset):
        return x
    if isinstance(x, list | tuple):
        are_inputs = len(x) > 0 and ((_is_array(x[0]) and x[0].ndim > 0) or (is_image and _is_raw(x[0])))
        return x if are_inputs else None
    if not is_image or not _is_raw(x):
        return None
    if not _is_array(x):
        return [x]
    if transform is None:
        return None
    return [x] if allow_one and x.ndim <= IMAGE_AXES else x


def _collect(items: Items, name: str, *, transform: Transform | None, is_image: bool, progress: bool) -> Tensor:
    """Return all items in one tensor, which is filled part by part, so that there is no second copy.

    Args:
        items: a DataLoader, a Dataset, or a list of inputs.
        name: of the argument.
        transform: of raw images.
        is_image: in single precision; otherwise only what is in single or half precision already.
        progress: show progress, and say how much memory the inputs take.
    """
    count = _count(items)
    whole: Tensor | None = None
    filled = 0
    with ProgressBar(f"collecting {name}", count or 0, enabled=progress and count is not None) as bar:
        for number, part in enumerate(_read_parts(items, name, transform)):
            if whole is None:
                _tell_bytes(name, part.dtype, enabled=progress and is_image)
                whole = _allocate(name, part, count, is_image=is_image)
            if part.shape[1:] != whole.shape[1:]:
                kind = "batch" if isinstance(items, DataLoader) else "item"
                raise ValueError(
                    f"{name} must have inputs of one shape: {kind} 0 has {tuple(whole.shape[1:])}, {kind} {number} has "
                    f"{tuple(part.shape[1:])}; resize them, e.g. in transform=..."
                )
            if filled + len(part) > len(whole):  # of an iterable of unknown length, or with larger batches
                whole = torch.cat([whole, whole.new_empty(max(len(whole), len(part)), *whole.shape[1:])])
            whole[filled : filled + len(part)] = part
            filled += len(part)
            bar.advance(1)
    if whole is None or not filled:
        raise ValueError(f"{name} must have at least one input, got an empty {type(items).__name__}")
    whole = whole[:filled]
    if isinstance(items, DataLoader | Dataset):
        shape = " x ".join(map(str, whole.shape[1:]))
        announce(name, f"collected {counted(filled, 'input')} of {shape}", memory=whole.nbytes, enabled=progress)
    return whole


def _count(items: Items) -> int | None:
    """Return the number of items, or of batches of a DataLoader; None if it is not known."""
    if isinstance(items, IterableDataset) or not isinstance(items, Sized):
        return None
    try:
        return len(items)
    except TypeError:  # a DataLoader of an IterableDataset
        return None


def _read_parts(items: Items, name: str, transform: Transform | None) -> Iterator[Tensor]:
    """Yield batches: those of a DataLoader, or each item as a batch of one."""
    for number, item in enumerate(_iterate(items, name)):
        where = f"{name}[{number}]"
        if not isinstance(items, DataLoader):
            yield _to_tensor(item, where, transform)[None]
        elif transform is not None and _is_raw(item):
            yield torch.stack([_to_tensor(image, where, transform) for image in item])
        else:
            yield _to_tensor(item, where, None)


def _iterate(items: Items, name: str) -> Iterator[Any]:
    """Yield items, or batches of a DataLoader, without labels; errors say which one failed."""
    is_indexed = isinstance(items, Dataset) and not isinstance(items, IterableDataset)
    if is_indexed and not isinstance(items, Sized):
        raise TypeError(f"{name} must have a length: {type(items).__name__} has no __len__")
    iterator = (items[number] for number in range(len(items))) if is_indexed else iter(items)  # type: ignore[index, arg-type]
    number = 0
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except Exception as error:  # whatever a user's code may raise
            kind = "batch" if isinstance(items, DataLoader) else "item"
            raise ValueError(
                f"{name}: {type(items).__name__} failed on {kind} {number}: {describe_failure(error)}"
            ) from error
        yield _without_label(item, f"{name}[{number}]") if isinstance(items, DataLoader | Dataset) else item
        number += 1


def _without_label(item: Any, name: str) -> Any:  # noqa: ANN401 - as a Dataset returns it
    """Return the input of an item of a Dataset: the first of a tuple, or the image of a dict."""
    if isinstance(item, Mapping):
        entry = next((entry for entry in IMAGE_ENTRIES if entry in item), None)
        if entry is None and len(item) != 1:
            raise ValueError(
                f"{name} is a dict of {listed(map(repr, item))}, and it is not clear which is the input; pass a "
                "Dataset of inputs, or of tuples (input, label)"
            )
        return item[entry if entry is not None else next(iter(item))]
    if isinstance(item, list | tuple) and len(item) > 0:
        return item[0]
    return item


def _to_tensor(item: Any, name: str, transform: Transform | None) -> Tensor:  # noqa: ANN401 - an input in any form
    """Return an input as a tensor; a raw one by the transform, if there is one."""
    if not _is_array(item) and not _is_raw(item):
        raise TypeError(f"{name} must be a tensor, an array, a PIL image or a path, got {shorten(item)}")
    if transform is None or not _is_raw(item):
        if not _is_array(item):
            kind = "a PIL image" if _is_picture(item) else f"the path {shorten(item)}"
            raise TypeError(f"{name} is {kind}: pass transform=..., a function that makes a tensor of a PIL image")
        return _read_numbers(item, name)
    picture = _open(item) if isinstance(item, str | os.PathLike) else item
    try:
        made = transform(picture)
    except Exception as error:  # whatever a user's code may raise
        raise ValueError(f"transform failed on {name}: {describe_failure(error)}") from error
    if not _is_array(made):
        raise TypeError(f"transform must return a tensor or an array, it returned {shorten(made)} for {name}")
    return _read_numbers(made, f"what transform returned for {name}")


def _read_numbers(array: Tensor | ndarray, name: str) -> Tensor:
    """Return an array as a tensor, or raise an error that names it if it contains anything but numbers."""
    try:
        return as_tensor(array).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be an array of real numbers, got {array.dtype} ({error})") from error


def _allocate(name: str, part: Tensor, count: int | None, *, is_image: bool) -> Tensor:
    """Return memory for as many parts as there are, of the size of the first one; raise an error if it is too large."""
    rows = len(part) * (count or 1)
    dtype = torch.float32 if is_image or part.dtype in (torch.float16, torch.bfloat16, torch.float32) else torch.float64
    needed = rows * math.prod(part.shape[1:]) * dtype.itemsize
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # unknown on this system
        available = needed
    if needed > available:
        raise ValueError(
            f"{name} has {counted(rows, 'input')} of shape {tuple(part.shape[1:])}, which take {needed / 2**30:,.0f} "
            f"GiB, and the machine has {available / 2**30:,.0f}; pass a part, e.g. torch.utils.data.Subset(...)"
        )
    return torch.empty(rows, *part.shape[1:], dtype=dtype)


def _tell_bytes(name: str, dtype: object, *, enabled: bool) -> None:
    """Say that bytes are not rescaled, which a model may expect."""
    is_bytes = dtype in (torch.uint8, np.dtype(np.uint8))
    announce(name, "the model gets bytes as numbers from 0 to 255, not rescaled", enabled=enabled and is_bytes)


def _open(path: str | os.PathLike[str]) -> Any:  # noqa: ANN401 - a PIL image
    """Return a picture in three colors, as torchvision's folders do."""
    try:
        from PIL import Image  # noqa: PLC0415 - optional, so imported where it is needed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("pictures need Pillow: pip install 'fwshapley[images]'") from error
    with Image.open(path) as picture:
        return picture.convert("RGB")


def _is_array(x: object) -> bool:
    return isinstance(x, Tensor | ndarray)


def _is_raw(x: object) -> bool:
    """Whether an input is a picture, a path, or made of bytes."""
    is_bytes = (isinstance(x, Tensor) and x.dtype == torch.uint8) or (isinstance(x, ndarray) and x.dtype == np.uint8)
    return is_bytes or isinstance(x, str | os.PathLike) or _is_picture(x)


def _is_picture(x: object) -> bool:
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(x, module.Image)
