"""A stand-in for the game that costs no calls: raw outputs of the surrogate, regressed on the coalitions called.

In the surrogate's raw outputs (logits) a game is close to additive even where its probabilities are not, so a few dozen
coalitions say much about all others. Equations: docs/math.md, section 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Self

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from fwshapley.explanation.refinement.sums import Coalitions

SCALES = (0.15, 0.5, 1.5, 5.0, 15.0)
"""Candidates for the sum of the kernel's decay over players."""
NUGGET = 1e-6
MOST_AT_ONCE = 2**20
"""Similarities held at once: few enough to stay in a processor's cache, which is several times faster."""

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
        precisions = [_invert(similarity(known, known, decay)) for decay in decays]
        line, rise = known.double() @ slope, raw - raw[0]
        fits = []
        for seen in folds:
            fitted = float((rise[seen] * line[seen]).sum() / line[seen].square().sum().clamp(min=_TINY))
            candidates = []
            for decay, precision in zip(decays, precisions, strict=True):
                for factor, (weight, left_out) in _interpolate(precision, seen, rise, line, factors={0.0, fitted}):
                    error = link(raw[seen]) - link(raw[seen] - left_out)
                    score = float((matter[seen] * error.square().sum(1)).sum())
                    candidates.append((score, factor * slope, decay, torch.zeros_like(raw).index_copy(0, seen, weight)))
            fits.append(min(candidates, key=lambda each: each[0])[1:])
        return cls(known, raw[0], *(list(each) for each in zip(*fits, strict=True)))

    def __call__(self, coalitions: Coalitions) -> Float64[Tensor, "folds coalitions outputs"]:
        """Raw outputs of coalitions, by each fold's function."""
        at_once = max(1, MOST_AT_ONCE // len(self.known))
        return torch.cat([self._answer(some) for some in coalitions.split(at_once)], 1)

    def _answer(self, coalitions: Coalitions) -> Float64[Tensor, "folds coalitions outputs"]:
        members = coalitions.double()
        answers = torch.stack([self.origin + members @ slope for slope in self.slopes])
        # Folds mostly agree on the decay; the lists hold the same tensor then.
        for decay in {id(each): each for each in self.decays}.values():
            folds = [fold for fold, each in enumerate(self.decays) if each is decay]
            weight = torch.cat([self.weights[fold] for fold in folds], 1)
            parts = (similarity(coalitions, self.known, decay) @ weight).split(len(self.origin), 1)
            for fold, part in zip(folds, parts, strict=True):
                answers[fold] += part
        return answers


def similarity(
    some: Bool[Tensor, "some players"], others: Bool[Tensor, "others players"], decay: Float64[Tensor, " players"]
) -> Float64[Tensor, "some others"]:
    """exp(-sum of the decay over the players in which two coalitions differ): a product over players."""
    a, b = some.double(), others.double()
    return torch.addmm(-(b @ decay), 2 * a * decay, b.T).sub_((a @ decay)[:, None]).exp_()


def _invert(gram: Float64[Tensor, "known known"]) -> Float64[Tensor, "known known"]:
    """Inverse of the kernel's matrix, once for all folds."""
    nugget = NUGGET * torch.eye(len(gram), device=gram.device, dtype=gram.dtype)
    return torch.cholesky_inverse(torch.linalg.cholesky(gram + nugget))


def _interpolate(
    precision: Float64[Tensor, "known known"],
    seen: Int[Tensor, " seen"],
    rise: Float64[Tensor, "known outputs"],
    line: Float64[Tensor, "known outputs"],
    factors: Iterable[float],
) -> Iterator[tuple[float, tuple[Float64[Tensor, "seen outputs"], Float64[Tensor, "seen outputs"]]]]:
    """Weights of the Gaussian process of what is seen, and its error at each coalition when that one is left out.

    Of the rise without a multiple of the line, for each factor. With P the inverse for all coalitions and L L' = P_hh
    for the hidden ones, that for those seen is P_ss - P_sh P_hh^-1 P_hs: a matrix of the hidden alone is factored.
    """
    shown = torch.zeros(len(precision), 1, device=precision.device, dtype=precision.dtype).index_fill(0, seen, 1)
    hidden = (shown[:, 0] == 0).nonzero().flatten()
    factor = torch.linalg.cholesky(precision[hidden][:, hidden])
    half = torch.linalg.solve_triangular(factor, precision[hidden], upper=False)
    spread = (precision.diagonal() - half.square().sum(0))[seen]
    together = precision @ (shown * torch.cat([rise, line], 1))
    together -= half.T @ torch.linalg.solve_triangular(factor, together[hidden], upper=False)
    weights = together[seen].split(rise.shape[1], 1)
    for multiple in factors:
        weight = weights[0] - multiple * weights[1]
        yield multiple, (weight, weight / spread[:, None])
