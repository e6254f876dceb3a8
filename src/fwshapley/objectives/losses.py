"""Squared errors of attributions, known up to a constant from the worth of sampled coalitions alone."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def multilinear_loss(
    psi: Float[Tensor, "batch players outputs"],
    worth: Float[Tensor, "batch masks outputs"],
    coalitions: Bool[Tensor, "batch masks players"],
    t: Float[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """Squared error of psi as an estimate of psi(t), up to a constant that does not depend on it.

    The masks of an input are independent Bernoulli(t). Centring the residuals over them removes the intercept:
    loss = sum over m of (r_m - mean r)**2 / ((M - 1) t (1 - t)), r_m = v(S_m) - sum of psi over S_m.
    """
    return centered_loss(psi, worth, coalitions, paired=False) / (t * (1 - t))


def kernel_loss(
    psi: Float[Tensor, "batch players outputs"],
    gain: Float[Tensor, "batch masks outputs"],
    coalitions: Bool[Tensor, "batch masks players"],
    importance: Float[Tensor, "batch masks"],
) -> Float[Tensor, " batch"]:
    """Mean squared residual of v(S) - v(nobody) under a semivalue's size law: Proposition 2.1's objective."""
    residual = _residuals(psi, gain, coalitions)
    return (importance[..., None] * residual.square()).mean(1).sum(-1)


def centered_loss(
    psi: Float[Tensor, "batch players outputs"],
    worth: Float[Tensor, "batch masks outputs"],
    coalitions: Bool[Tensor, "batch masks players"],
    *,
    paired: bool,
) -> Float[Tensor, " batch"]:
    """Variance of the residuals of each input's masks, which no intercept can change.

    If they have one size, it is `kernel_loss` less what no psi of a given sum can change. In complementary pairs only
    the difference of the two residuals depends on psi: half of it is what varies.
    """
    residual = _residuals(psi, worth, coalitions)
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
    worth: Float[Tensor, "batch masks outputs"],
    coalitions: Bool[Tensor, "batch masks players"],
) -> Float[Tensor, "batch masks outputs"]:
    return worth - torch.einsum("bmn,bno->bmo", coalitions.to(psi.dtype), psi)
