"""A game with known semivalues that the network predicts for an input: the control variate of `refine`.

The network's psi_i(t) is the slope of the game's multilinear extension F on its diagonal. It thus also predicts the
value of every coalition, to first order around the diagonal: a game with a closed-form semivalue (`FirstOrderGame`).
And it predicts roughly how much each player changes the surrogate's raw outputs (`raw_slopes`).
Equations: docs/math.md, section 7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from fwshapley.explanation.learned.fitted import Fitted
from fwshapley.games.scales import Output
from fwshapley.objectives import Kernel
from fwshapley.semivalues import Banzhaf, Semivalue

MIN_GRID = 64
"""Fewest intervals in t, enough for the trapezoid rule."""

MIN_T = 1e-4
JACOBIANS = 16
MIN_PROBABILITY = 1e-3
RIDGE = 1e-3
MIN_RELEVANCE = 0.2


class FirstOrderGame(NamedTuple):
    """The game g(S) = level(s) + sum of slope(s) over the members of S, whose semivalues have a closed form."""

    level: Float64[Tensor, "sizes outputs"]
    slope: Float64[Tensor, "sizes players outputs"]

    def __call__(self, coalitions: Bool[Tensor, "coalitions players"]) -> Float64[Tensor, "coalitions outputs"]:
        """Value of each coalition."""
        sizes = coalitions.sum(1)
        members = coalitions.double()
        values = self.level[sizes]
        for size in sizes.unique().tolist():  # slopes for every coalition at once would not fit into memory
            rows = sizes == size
            values[rows] += members[rows] @ self.slope[size]
        return values

    def values(self, laws: Float64[Tensor, "weights players"]) -> Float64[Tensor, "weights players outputs"]:
        """Semivalues, given their join laws; docs/math.md, eq. 11.

        phi_i = sum_s w(s) (level(s+1) - level(s) + slope_i(s+1) + s/(n-1) sum_{j != i} (slope_j(s+1) - slope_j(s)))
        """
        n = laws.shape[1]
        bend = self.slope.diff(dim=0)
        of_others = bend.sum(1, keepdim=True) - bend
        share = torch.arange(n, device=laws.device, dtype=laws.dtype) / max(n - 1, 1)
        gain = self.level.diff(dim=0)[:, None] + self.slope[1:] + share[:, None, None] * of_others
        return torch.tensordot(laws, gain, dims=1)


class Slopes(NamedTuple):
    """psi_i(t) of one input, at evenly spaced t from 0 to 1, every `stride`-th of which is a size s/n."""

    psi: Float64[Tensor, "grid players outputs"]
    stride: int

    def diagonal(self, empty: Tensor, full: Tensor) -> Float64[Tensor, "grid outputs"]:
        """F(t): the value of the empty coalition plus the integral of the summed slopes, tilted to end at `full`."""
        total = self.psi.sum(1)
        rise = torch.cumulative_trapezoid(total, dx=1 / (len(total) - 1), dim=0)
        rise = torch.cat([torch.zeros_like(total[:1]), rise])
        t = torch.linspace(0, 1, len(total), device=total.device, dtype=total.dtype)[:, None]
        return empty + rise + t * (full - empty - rise[-1])

    def first_order(self, empty: Float64[Tensor, " outputs"], full: Float64[Tensor, " outputs"]) -> FirstOrderGame:
        """Taylor expansion around the diagonal, exact for the empty coalition and all players; docs/math.md, eq. 10.

        g(S) = F(t) + sum_i (1[i in S] - t) psi_i(t),  t = s/n
        """
        slope = self.psi[:: self.stride]
        diagonal = self.diagonal(empty, full)[:: self.stride]
        t = torch.linspace(0, 1, len(slope), device=slope.device, dtype=slope.dtype)[:, None]
        return FirstOrderGame(diagonal - t * slope.sum(1), slope)

    def relevance(self) -> Float64[Tensor, " players"]:
        """Size of each player's slopes, 1 on average and never 0."""
        size = self.psi.square().mean((0, 2)).sqrt()
        return (size / size.mean().clamp(min=torch.finfo(size.dtype).tiny) + MIN_RELEVANCE) / (1 + MIN_RELEVANCE)

    def raw_slopes(
        self, empty: Float64[Tensor, " outputs"], full: Float64[Tensor, " outputs"], output: Output
    ) -> Float64[Tensor, "players outputs"]:
        """Change of the surrogate's raw outputs per player that explains psi best; docs/math.md, eq. 15.

        minimize over b_i: sum over t of |psi_i(t) - J(t) b_i|**2 + ridge |b_i|**2, with J(t) the derivative of values
        by raw outputs on the diagonal.
        """
        step = math.ceil(len(self.psi) / JACOBIANS)
        jacobian = _jacobian(self.diagonal(empty, full)[::step], output)
        gram = torch.einsum("tab,tac->bc", jacobian, jacobian)
        ridge = RIDGE * gram.diagonal().mean() * torch.eye(len(gram), device=gram.device, dtype=gram.dtype)
        return torch.linalg.solve(gram + ridge, torch.einsum("tab,tna->bn", jacobian, self.psi[::step])).T


def network_values(
    fitted: Fitted, x: Float[Tensor, "batch ..."], weights: Sequence[Semivalue]
) -> Float64[Tensor, "weights batch players outputs"]:
    """Values by the network alone, without mixed precision."""
    with torch.no_grad():
        return fitted.values(x, fitted.objective.mixtures(weights, x.device)).double()


def network_slopes(fitted: Fitted, x: Float[Tensor, "1 ..."]) -> Slopes:
    """Slopes of one input, by a pass of the network; a kernel objective has the same slopes for every t."""
    n = int(fitted.masked_model.counts(x))
    stride = math.ceil(MIN_GRID / n)
    if isinstance(fitted.objective, Kernel):
        psi = network_values(fitted, x, [fitted.objective.weights])[:, 0].expand(stride * n + 1, -1, -1)
    else:
        grid = torch.linspace(0, 1, stride * n + 1).clamp(MIN_T, 1 - MIN_T)
        psi = network_values(fitted, x, [Banzhaf(t) for t in grid.tolist()])[:, 0, :n]
    return Slopes(psi, stride)


def _jacobian(values: Float64[Tensor, "grid outputs"], output: Output) -> Float64[Tensor, "grid outputs outputs"]:
    """Derivative of values by the raw outputs that belong to them."""
    if output in {"raw", "label_logit"}:
        return torch.eye(values.shape[1], device=values.device, dtype=values.dtype).expand(len(values), -1, -1)
    p = (values.sigmoid() if output == "logit" else values).clamp(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    if output == "label_probability":
        return torch.diag_embed(p * (1 - p))
    p = p / p.sum(1, keepdim=True)
    softmax = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    return softmax if output == "probability" else softmax / (p * (1 - p))[:, :, None]
