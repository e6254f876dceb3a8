"""Correlation of two lists of numbers, or of the rows of two tables."""

from __future__ import annotations

import torch
from jaxtyping import Float, Float64
from scipy.stats import rankdata
from torch import Tensor

TINY = torch.finfo(torch.float64).tiny


def pearson(one: Float[Tensor, "*rows n"], other: Float[Tensor, "*rows n"]) -> Float64[Tensor, "*rows"]:
    """Pearson's correlation over the last axis; 0 where one of the two is constant."""
    one, other = (values.double() - values.double().mean(-1, keepdim=True) for values in (one, other))
    return (one * other).sum(-1) / (one.norm(dim=-1) * other.norm(dim=-1)).clamp(min=TINY)


def spearman(one: Float[Tensor, " n"], other: Float[Tensor, " n"]) -> Float64[Tensor, ""]:
    """Spearman's rank correlation; equal numbers share a rank."""
    return pearson(*(torch.from_numpy(rankdata(values.cpu().numpy())) for values in (one, other)))
