"""Squared errors of attributions, known up to a constant from the values of sampled coalitions alone."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

PILOT_INPUTS = 128
PILOT_COALITIONS = 16
"""Inputs, and coalitions of each input, that an objective is calibrated on."""

MIN_LEVEL = 1e-12
"""Smallest loss of the empty explanation that an objective divides by."""


class Sample(NamedTuple):
    """Coalitions of some inputs and their values.

    Attributes:
        x: the inputs.
        coalitions: several for each input.
        values: of the coalitions.
        t: probability of each player, for the multilinear objective.
        ends: values of the empty coalition and of all players, for a kernel objective that is not centered.
        importance: weight of each input, for a kernel objective that does not draw its sizes by the size law.
    """

    x: Float[Tensor, "batch ..."]
    coalitions: Bool[Tensor, "batch coalitions players"]
    values: Float[Tensor, "batch coalitions outputs"]
    t: Float[Tensor, " batch"] | None = None
    ends: Float[Tensor, "batch 2 outputs"] | None = None
    importance: Float[Tensor, " batch"] | None = None


def multilinear_loss(
    psi: Float[Tensor, "batch players outputs"],
    values: Float[Tensor, "batch coalitions outputs"],
    coalitions: Bool[Tensor, "batch coalitions players"],
    t: Float[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """Squared error of psi as an estimate of psi(t), up to a constant that does not depend on psi.

    The M coalitions of an input are independent Bernoulli(t). Centering their residuals removes the intercept:
    loss = sum over m of (r_m - mean r)**2 / ((M - 1) t (1 - t)), r_m = v(S_m) - sum of psi over S_m.
    """
    return centered_loss(psi, values, coalitions, paired=False) / (t * (1 - t))


def kernel_loss(
    psi: Float[Tensor, "batch players outputs"],
    gain: Float[Tensor, "batch coalitions outputs"],
    coalitions: Bool[Tensor, "batch coalitions players"],
    importance: Float[Tensor, "batch coalitions"] | None = None,
) -> Float[Tensor, " batch"]:
    """Mean squared residual of v(S) - v(empty coalition) under a semivalue's size law: Proposition 2.1's objective."""
    residual = _residuals(psi, gain, coalitions).square()
    return (residual if importance is None else importance[..., None] * residual).mean(1).sum(-1)


def centered_loss(
    psi: Float[Tensor, "batch players outputs"],
    values: Float[Tensor, "batch coalitions outputs"],
    coalitions: Bool[Tensor, "batch coalitions players"],
    *,
    paired: bool,
) -> Float[Tensor, " batch"]:
    """Variance of the residuals of each input's coalitions, which no intercept changes.

    For coalitions of one size, it is `kernel_loss` minus a term that does not depend on psi, given psi's sum. In
    complementary pairs, only the difference of the two residuals depends on psi: half of it varies.
    """
    residual = _residuals(psi, values, coalitions)
    if paired:
        residual = (residual[:, ::2] - residual[:, 1::2]) / 2
    return residual.var(dim=1, correction=1).sum(-1)


def shift_to_total(
    psi: Float[Tensor, "*batch players outputs"], total: Float[Tensor, "*batch outputs"]
) -> Float[Tensor, "*batch players outputs"]:
    """Additive normalization: shift psi by one constant per input and output so that it sums to total."""
    return psi + (total - psi.sum(-2))[..., None, :] / psi.shape[-2]


def _residuals(
    psi: Float[Tensor, "batch players outputs"],
    values: Float[Tensor, "batch coalitions outputs"],
    coalitions: Bool[Tensor, "batch coalitions players"],
) -> Float[Tensor, "batch coalitions outputs"]:
    return values - torch.einsum("bmn,bno->bmo", coalitions.to(psi.dtype), psi)
