"""A stand-in for the game that costs no calls: raw outputs of the surrogate, regressed on the coalitions called.

In the surrogate's raw outputs (logits) a game is close to additive even where its probabilities are not, so a few dozen
coalitions say much about all others. Equations: docs/math.md, section 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from fwshapley.refinement.sums import Coalitions

SCALES = (0.15, 0.5, 1.5, 5.0, 15.0)
"""Candidates for the sum of the kernel's decay over players."""
NUGGET = 1e-6

_TINY = torch.finfo(torch.float64).tiny

Link = Callable[[Tensor], Tensor]
"""From raw outputs to worths."""


class Regression(NamedTuple):
    """Raw outputs as functions of the coalition: one for each fold, which has not seen that fold's coalitions.

    A line, plus a Gaussian process on what the line leaves, with the kernel `similarity`; docs/math.md, eq. 14.
    """

    known: Bool[Tensor, "known players"]
    origin: Float64[Tensor, " outputs"]
    slopes: list[Float64[Tensor, "players outputs"]]
    decays: list[Float64[Tensor, " players"]]
    weights: list[Float64[Tensor, "known outputs"]]
    """Zero for the fold's own coalitions."""

    @classmethod
    def fit(
        cls,
        known: Bool[Tensor, "known players"],
        raw: Float64[Tensor, "known outputs"],
        folds: list[Int[Tensor, " _"]],
        *,
        slope: Float64[Tensor, "players outputs"],
        relevance: Float64[Tensor, " players"],
        link: Link,
        matter: Float64[Tensor, " known"],
    ) -> Self:
        """Fit to known coalitions; for each fold choose the decay, and whether there is a line, by leaving one out.

        Args:
            known: coalitions, of which the first is nobody.
            raw: their raw outputs.
            folds: numbers of the coalitions that each fold may see.
            slope: of the line, up to a factor.
            relevance: of the players, to which decays are proportional.
            link: what turns raw outputs into worths.
            matter: how much a squared error of the worth counts at each.
        """
        decays = [scale * relevance / relevance.sum() for scale in SCALES]
        grams = [similarity(known, known, decay) for decay in decays]
        line, rise = known.double() @ slope, raw - raw[0]
        fits = []
        for seen in folds:
            fitted = float((rise[seen] * line[seen]).sum() / line[seen].square().sum().clamp(min=_TINY))
            candidates = []
            for decay, gram in zip(decays, grams, strict=True):
                for factor in {0.0, fitted}:
                    weight, left_out = _interpolate(gram[seen][:, seen], rise[seen] - factor * line[seen])
                    error = link(raw[seen]) - link(raw[seen] - left_out)
                    score = float((matter[seen] * error.square().sum(1)).sum())
                    candidates.append((score, factor * slope, decay, torch.zeros_like(raw).index_copy(0, seen, weight)))
            fits.append(min(candidates, key=lambda each: each[0])[1:])
        return cls(known, raw[0], *(list(each) for each in zip(*fits, strict=True)))

    def __call__(self, coalitions: Coalitions) -> Float64[Tensor, "folds coalitions outputs"]:
        """Raw outputs of coalitions, by each fold's function."""
        members = coalitions.double()
        # Folds mostly agree on the decay; the lists hold the same tensor then.
        grams = {id(decay): similarity(coalitions, self.known, decay) for decay in self.decays}
        parts = zip(self.slopes, self.decays, self.weights, strict=True)
        return torch.stack(
            [self.origin + members @ slope + grams[id(decay)] @ weight for slope, decay, weight in parts]
        )


def similarity(
    some: Bool[Tensor, "some players"], others: Bool[Tensor, "others players"], decay: Float64[Tensor, " players"]
) -> Float64[Tensor, "some others"]:
    """exp(-sum of the decay over the players in which two coalitions differ): a product over players."""
    a, b = some.double(), others.double()
    return (2 * (a * decay) @ b.T - (a @ decay)[:, None] - b @ decay).exp()


def _interpolate(
    gram: Float64[Tensor, "seen seen"], rise: Float64[Tensor, "seen outputs"]
) -> tuple[Float64[Tensor, "seen outputs"], Float64[Tensor, "seen outputs"]]:
    """Weights of the Gaussian process, and its error at each coalition when that one is left out."""
    factor = torch.linalg.cholesky(gram + NUGGET * torch.eye(len(gram), device=gram.device, dtype=gram.dtype))
    weight = torch.cholesky_solve(rise, factor)
    return weight, weight / torch.cholesky_inverse(factor).diagonal()[:, None]
