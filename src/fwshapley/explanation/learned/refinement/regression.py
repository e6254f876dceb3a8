"""A regression of the surrogate's raw outputs on the evaluated coalitions: predicts all others without calls.

In raw outputs (logits), a game is close to additive even if its probabilities are not, so a few dozen coalitions
predict many others well. Equations: docs/math.md, section 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Self

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from fwshapley.games.game import Coalitions

SCALES = (0.15, 0.5, 1.5, 5.0, 15.0)
"""Candidates for the sum of the kernel's decay over players."""

NUGGET = 1e-6
MAX_SIMILARITIES = 2**20
"""Similarities computed at once: few enough to stay in a processor's cache, which is several times faster."""

_TINY = torch.finfo(torch.float64).tiny

Link = Callable[[Tensor], Tensor]
"""From raw outputs to values of coalitions."""


class Regression(NamedTuple):
    """Raw outputs as functions of the coalition: one for each fold, which is not fitted to the fold's own coalitions.

    A line, plus a Gaussian process with the kernel `similarity` for what the line leaves; docs/math.md, eq. 14.
    """

    coalitions: Bool[Tensor, "fitted players"]
    origin: Float64[Tensor, " outputs"]
    slopes: list[Float64[Tensor, "players outputs"]]
    decays: list[Float64[Tensor, " players"]]
    weights: list[Float64[Tensor, "fitted outputs"]]
    """Zero for the fold's own coalitions."""

    @classmethod
    def fit(
        cls,
        coalitions: Bool[Tensor, "fitted players"],
        raw: Float64[Tensor, "fitted outputs"],
        folds: list[Int[Tensor, " _"]],
        *,
        slope: Float64[Tensor, "players outputs"],
        relevance: Float64[Tensor, " players"],
        link: Link,
        importance: Float64[Tensor, " fitted"],
    ) -> Self:
        """Fit each fold's function; choose its decay, and whether it has a line, by leave-one-out errors.

        Args:
            coalitions: of which the first is empty.
            raw: their raw outputs.
            folds: indices of the coalitions that each fold's function may be fitted to.
            slope: of the line, up to a factor.
            relevance: of the players; decays are proportional to it.
            link: from raw outputs to values.
            importance: weight of the squared error of each coalition's value.
        """
        decays = [scale * relevance / relevance.sum() for scale in SCALES]
        precisions = [_invert(similarity(coalitions, coalitions, decay)) for decay in decays]
        line = coalitions.double() @ slope
        rise = raw - raw[0]
        best = []
        for rows in folds:
            fitted = float((rise[rows] * line[rows]).sum() / line[rows].square().sum().clamp(min=_TINY))
            candidates = []
            for decay, precision in zip(decays, precisions, strict=True):
                for factor, weight, left_out in _interpolate(precision, rows, rise, line, factors={0.0, fitted}):
                    error = link(raw[rows]) - link(raw[rows] - left_out)
                    score = float((importance[rows] * error.square().sum(1)).sum())
                    spread = torch.zeros_like(raw).index_copy(0, rows, weight)
                    candidates.append((score, factor * slope, decay, spread))
            best.append(min(candidates, key=lambda candidate: candidate[0])[1:])
        slopes, chosen, weights = (list(parts) for parts in zip(*best, strict=True))
        return cls(coalitions, raw[0], slopes, chosen, weights)

    def __call__(self, coalitions: Coalitions) -> Float64[Tensor, "folds coalitions outputs"]:
        """Raw outputs of coalitions, by each fold's function."""
        at_once = max(1, MAX_SIMILARITIES // len(self.coalitions))
        return torch.cat([self._predict(batch) for batch in coalitions.split(at_once)], 1)

    def _predict(self, coalitions: Coalitions) -> Float64[Tensor, "folds coalitions outputs"]:
        members = coalitions.double()
        predicted = torch.stack([self.origin + members @ slope for slope in self.slopes])
        # Folds mostly choose the same decay; the lists then contain the same tensor.
        for decay in {id(decay): decay for decay in self.decays}.values():
            folds = [fold for fold, other in enumerate(self.decays) if other is decay]
            weight = torch.cat([self.weights[fold] for fold in folds], 1)
            parts = (similarity(coalitions, self.coalitions, decay) @ weight).split(len(self.origin), 1)
            for fold, part in zip(folds, parts, strict=True):
                predicted[fold] += part
        return predicted


def similarity(
    some: Bool[Tensor, "some players"], others: Bool[Tensor, "others players"], decay: Float64[Tensor, " players"]
) -> Float64[Tensor, "some others"]:
    """exp(-sum of the decay over the players in which two coalitions differ): a product over players."""
    a, b = some.double(), others.double()
    return torch.addmm(-(b @ decay), 2 * a * decay, b.T).sub_((a @ decay)[:, None]).exp_()


def _invert(gram: Float64[Tensor, "fitted fitted"]) -> Float64[Tensor, "fitted fitted"]:
    """Inverse of the kernel's matrix, once for all folds."""
    nugget = NUGGET * torch.eye(len(gram), device=gram.device, dtype=gram.dtype)
    return torch.cholesky_inverse(torch.linalg.cholesky(gram + nugget))


def _interpolate(
    precision: Float64[Tensor, "fitted fitted"],
    rows: Int[Tensor, " rows"],
    rise: Float64[Tensor, "fitted outputs"],
    line: Float64[Tensor, "fitted outputs"],
    factors: Iterable[float],
) -> Iterator[tuple[float, Float64[Tensor, "rows outputs"], Float64[Tensor, "rows outputs"]]]:
    """Yield each factor with the Gaussian process of `rise - factor * line` on some rows.

    The process is given by its weights, and by the error at each row if that row is left out. With P the inverse for
    all rows (s) and hidden rows (h), the inverse for the rows s alone is P_ss - P_sh P_hh^-1 P_hs: only a matrix of the
    hidden rows is factored.
    """
    shown = torch.zeros(len(precision), 1, device=precision.device, dtype=precision.dtype).index_fill(0, rows, 1)
    hidden = (shown[:, 0] == 0).nonzero().flatten()
    factor = torch.linalg.cholesky(precision[hidden][:, hidden])
    half = torch.linalg.solve_triangular(factor, precision[hidden], upper=False)
    diagonal = (precision.diagonal() - half.square().sum(0))[rows]
    both = precision @ (shown * torch.cat([rise, line], 1))
    both -= half.T @ torch.linalg.solve_triangular(factor, both[hidden], upper=False)
    rise_weight, line_weight = both[rows].split(rise.shape[1], 1)
    for multiple in factors:
        weight = rise_weight - multiple * line_weight
        yield multiple, weight, weight / diagonal[:, None]
