"""What a network says about the worth of every coalition, not of players alone: the controls of `refine`.

The network's psi_i(t) is the slope of the game's multilinear extension F on its diagonal. So it also says what
coalitions are worth: to first order around the diagonal, in units of the game, with a semivalue in closed form
(`FirstOrder`); and roughly how much each player moves the surrogate's own outputs (`raw_slopes`).
Equations: docs/math.md, section 7.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from fwshapley.explanation.fitting import Fitted
from fwshapley.games.masked_model import Output
from fwshapley.objectives import Kernel
from fwshapley.semivalues import Banzhaf

GRID = 64
"""Places in t, at least: enough for the trapezoid rule."""
NEAREST_END = 1e-4
JACOBIANS = 16
LEAST_PROBABILITY = 1e-3
RIDGE = 1e-3
LEAST_RELEVANCE = 0.2


class FirstOrder(NamedTuple):
    """The game g(S) = level(s) + sum of slope(s) over the members of S, whose semivalues are closed."""

    level: Float64[Tensor, "sizes outputs"]
    slope: Float64[Tensor, "sizes players outputs"]

    def __call__(self, coalitions: Bool[Tensor, "coalitions players"]) -> Float64[Tensor, "coalitions outputs"]:
        """Worth of each coalition."""
        sizes, members = coalitions.sum(1), coalitions.double()
        worth = self.level[sizes]
        for size in sizes.unique().tolist():  # a slope for every coalition would not fit into memory
            rows = sizes == size
            worth[rows] += members[rows] @ self.slope[size]
        return worth

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

    def diagonal(self, nobody: Tensor, everyone: Tensor) -> Float64[Tensor, "grid outputs"]:
        """F(t): the integral of the slopes' sum from nobody on, straightened to end at everyone."""
        total = self.psi.sum(1)
        rise = torch.cumulative_trapezoid(total, dx=1 / (len(total) - 1), dim=0)
        rise = torch.cat([torch.zeros_like(total[:1]), rise])
        t = torch.linspace(0, 1, len(total), device=total.device, dtype=total.dtype)[:, None]
        return nobody + rise + t * (everyone - nobody - rise[-1])

    def first_order(self, nobody: Float64[Tensor, " outputs"], everyone: Float64[Tensor, " outputs"]) -> FirstOrder:
        """Taylor expansion around the diagonal, exact for nobody and everyone; docs/math.md, eq. 10.

        g(S) = F(t) + sum_i (1[i in S] - t) psi_i(t),  t = s/n
        """
        slope, diagonal = self.psi[:: self.stride], self.diagonal(nobody, everyone)[:: self.stride]
        t = torch.linspace(0, 1, len(slope), device=slope.device, dtype=slope.dtype)[:, None]
        return FirstOrder(diagonal - t * slope.sum(1), slope)

    def relevance(self) -> Float64[Tensor, " players"]:
        """How much each player matters, 1 on average and never nothing."""
        size = self.psi.square().mean((0, 2)).sqrt()
        return (size / size.mean().clamp(min=torch.finfo(size.dtype).tiny) + LEAST_RELEVANCE) / (1 + LEAST_RELEVANCE)

    def raw_slopes(
        self, nobody: Float64[Tensor, " outputs"], everyone: Float64[Tensor, " outputs"], output: Output
    ) -> Float64[Tensor, "players outputs"]:
        """Change of the surrogate's raw outputs per player that explains psi best; docs/math.md, eq. 15.

        minimize over b_i: sum over t of |psi_i(t) - J(t) b_i|**2 + ridge |b_i|**2, J the derivative of the worth by the
        raw outputs where the diagonal is.
        """
        step = math.ceil(len(self.psi) / JACOBIANS)
        jacobian = _jacobian(self.diagonal(nobody, everyone)[::step], output)
        gram = torch.einsum("tab,tac->bc", jacobian, jacobian)
        ridge = RIDGE * gram.diagonal().mean() * torch.eye(len(gram), device=gram.device, dtype=gram.dtype)
        return torch.linalg.solve(gram + ridge, torch.einsum("tab,tna->bn", jacobian, self.psi[::step])).T


def network_slopes(fitted: Fitted, x: Float[Tensor, "1 ..."]) -> Slopes:
    """Slopes of one input, by a pass of the network; those of the kernel objective are the same for every t."""
    n = fitted.masked_model.n_players
    stride = math.ceil(GRID / n)
    with torch.no_grad():
        if isinstance(fitted.objective, Kernel):
            mixtures = fitted.objective.mixtures([fitted.objective.weights], x.device)
        else:
            places = torch.linspace(0, 1, stride * n + 1).clamp(NEAREST_END, 1 - NEAREST_END)
            mixtures = fitted.objective.mixtures([Banzhaf(t) for t in places.tolist()], x.device)
        psi = fitted.values(x, mixtures)[:, 0].double()
    return Slopes(psi.expand(stride * n + 1, -1, -1), stride)


def _jacobian(worth: Float64[Tensor, "grid outputs"], output: Output) -> Float64[Tensor, "grid outputs outputs"]:
    """Derivative of the worth by the raw outputs, at given worths."""
    if output in {"raw", "label_logit"}:
        return torch.eye(worth.shape[1], device=worth.device, dtype=worth.dtype).expand(len(worth), -1, -1)
    p = (worth.sigmoid() if output == "logit" else worth).clamp(LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    if output == "label_probability":
        return torch.diag_embed(p * (1 - p))
    p = p / p.sum(1, keepdim=True)
    softmax = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    return softmax if output == "probability" else softmax / (p * (1 - p))[:, :, None]
