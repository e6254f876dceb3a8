"""What replaces hidden features: zero, the mean, a baseline, or background data.

A surrogate that fills hidden features gets a fill, (fills, ...): its prediction is the mean over the fills.
"""

from __future__ import annotations

from typing import Literal, get_args

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from fwshapley._internal.checks import Array, check_choice
from fwshapley._internal.tensor_checks import check_tensor, to_precision
from fwshapley.explanation.inputs.image_layout import channels_first
from fwshapley.tables.network_encoding import TableSchema

RemovalName = Literal["auto", "zero", "mean", "attention", "mask_token"]
"""A rule for what replaces hidden features; the last two are for transformers, see `networks.token_inputs`."""

IMAGE_BATCH_AXES = 4

PLAUSIBLE_ZEROS = 0.01
"""Share of zeros in the data above which zero is a plausible value, which cannot mark a hidden pixel."""


def check_removal(removal: RemovalName | Array) -> None:
    """Raise an error unless removal is a rule, a baseline or background data."""
    if isinstance(removal, str):
        check_choice("removal", removal, get_args(RemovalName))
    elif not isinstance(removal, pd.DataFrame) and not bool(check_tensor("removal", removal).isfinite().all()):
        raise ValueError("removal contains NaN or infinite values; replace them first")


def encode_removal(
    removal: RemovalName | Array, schema: TableSchema | None, dtype: torch.dtype
) -> RemovalName | Tensor:
    """Return a baseline or background data as a tensor; a rule is returned unchanged."""
    if isinstance(removal, str):
        return removal  # type: ignore[return-value]  # checked before
    if schema is not None:
        return schema.encode(removal if schema.is_frame else check_tensor("removal", removal))
    return to_precision(check_tensor("removal", removal), dtype, "removal")


def make_fill(removal: RemovalName | Tensor, x: Float[Tensor, "rows ..."]) -> Float[Tensor, "fills ..."]:
    """Return what replaces hidden positions of inputs like x.

    "zero" is zero, and "mean" the mean of x at each position. "auto" is zero, unless zero is a plausible value (more
    than 1 % of the data, such as the background of digits): then a value that no pixel has, half the range below the
    smallest one. A tensor is a baseline (one input) or background data (several).

    Example:
        >>> make_fill("mean", torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
        tensor([[2., 4.]])
    """
    if isinstance(removal, Tensor):
        fill = removal.to(x.device, x.dtype)
        fill = fill if fill.ndim == x.ndim else fill[None]
        if fill.ndim == IMAGE_BATCH_AXES and fill.shape[1:] == (*x.shape[2:], x.shape[1]) != x.shape[1:]:
            fill = channels_first(fill, "NHWC")
        if fill.shape[1:] != x.shape[1:] or not len(fill):
            shape = tuple(x.shape[1:])
            raise ValueError(
                f"removal must be a baseline of shape {shape} or background data of shape (rows, "
                f"{', '.join(map(str, shape))}), got shape {tuple(removal.shape)}"
            )
        return fill
    if removal in ("attention", "mask_token"):
        raise ValueError(
            f"removal={removal!r} is for transformers alone; pass 'zero', 'mean', a baseline or background"
        )
    if removal == "mean":
        return x.nanmean(0, keepdim=True)
    low, high = x.aminmax()
    zero_is_plausible = removal == "auto" and int((x == 0).sum()) > PLAUSIBLE_ZEROS * x.numel()
    value = float(low - (high - low) / 2) if zero_is_plausible else 0.0
    return torch.full((1,) * x.ndim, value, device=x.device)
