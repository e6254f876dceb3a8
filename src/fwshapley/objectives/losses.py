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
    residual = residuals(psi, values, coalitions)
    if paired:
        residual = (residual[:, ::2] - residual[:, 1::2]) / 2
    return residual.var(dim=1, correction=1).sum(-1)


def shift_to_total(
    psi: Float[Tensor, "*batch players outputs"],
    total: Float[Tensor, "*batch outputs"],
    members: Bool[Tensor, "batch players"] | None = None,
) -> Float[Tensor, "*batch players outputs"]:
    """Additive normalization: shift psi by one constant per input and output so that it sums to total.

    Args:
        psi: values.
        total: what they should sum to.
        members: which players each input has; None if all. The others keep their zeros.
    """
    gap = (total - psi.sum(-2))[..., None, :]
    if members is None:
        return psi + gap / psi.shape[-2]
    shares = members.to(psi.dtype) / members.sum(1, keepdim=True)
    return psi + gap * shares[..., None]


def residuals(
    psi: Float[Tensor, "batch players outputs"],
    values: Float[Tensor, "batch coalitions outputs"],
    coalitions: Bool[Tensor, "batch coalitions players"],
) -> Float[Tensor, "batch coalitions outputs"]:
    """v(S) minus the sum of psi over S, for each coalition."""
    return values - torch.einsum("bmn,bno->bmo", coalitions.to(psi.dtype), psi)
