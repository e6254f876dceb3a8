"""Squared errors of a prediction by the nearest neighbors: docs/math.md, section 6.

In a point's value, its target meets the targets of other points in pairs. Two laws weigh the pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from fwshapley.semivalues import Semivalue
from fwshapley.valuation.knn.closed_forms.form import ClosedForm, sums_behind, sums_from


def pair_laws(
    law: Float[Tensor, "weights n sizes"], k: int
) -> tuple[Float[Tensor, "weights n"], Float[Tensor, "weights n"]]:
    """Return by rank l = 1..n how often a pair of points meets in a coalition.

    With `law` the membership law w, in a coalition that another point joins,

    - A_l = sum_{0<m<K} w_{l-1}(m) m / (l-1): a given closer point is a member, and l would be one of the K nearest;
    - B_l = w_{l-1}(K) K (K-1) / ((l-1) (l-2)): two given closer points are members, and l would come next.
    """
    others = torch.arange(law.shape[1], dtype=torch.float64, device=law.device)
    sizes = torch.arange(k, dtype=torch.float64, device=law.device)
    joined = law[..., :k] @ sizes / others.clamp(min=1)
    displaced = law[..., k] * (k * (k - 1)) / (others * (others - 1)).clamp(min=1)
    return joined, displaced


class SquaredError(ClosedForm):
    """Minus the squared error of (sum of the contributions of the K nearest) / K as a prediction of y*.

    A contribution y_j is the target's excess over a default, with a kernel times its closeness; y* is the reference
    point's excess. With Y_l the sum of y_j over all j closer than l,

        phi_i = c_i g_i - sum_{l>i} d_l g_l
                - (2/K**2) [A_i y_i Y_i + y_i sum_{l>i} (A_l + B_l) y_l - sum_{l>i} B_l y_l Y_l],

    where g_j = 2 y* y_j / K - y_j**2 / K**2, d_l is `drop`, and A and B are those of `pair_laws`.

    Args:
        weights: semivalues.
        n: number of players of a game.
        k: number of nearest neighbors.
        default: what an empty coalition predicts.
        device: where values are computed.
    """

    degree = 2

    def __init__(
        self,
        weights: Sequence[Semivalue],
        n: int,
        k: int,
        *,
        default: float = 0.0,
        device: str | torch.device = "cpu",
    ) -> None:
        super().__init__(weights, n, k, device=device)
        self.default = default
        self.joined, self.displaced = pair_laws(self.law, k)

    def contributions(
        self,
        labels: Float[Tensor, "references ranks"],
        label: Float[Tensor, " references"],  # noqa: ARG002 - the base class passes it
        closeness: Float[Tensor, "references ranks"] | None = None,
    ) -> Float[Tensor, "references ranks"]:
        """Return y."""
        excess = labels - self.default
        return excess if closeness is None else excess * closeness

    def aim(self, label: Float[Tensor, " references"]) -> Float[Tensor, "references 1"]:
        """Return y*, what the contributions should add up to."""
        return (label - self.default)[:, None]

    def by_rank(
        self,
        labels: Float[Tensor, "references ranks"],
        label: Float[Tensor, " references"],
        closeness: Float[Tensor, "references ranks"] | None = None,
    ) -> Float[Tensor, "weights references ranks"]:
        """Return the formula, from two sums over farther ranks."""
        k, y = self.k, self.contributions(labels, label, closeness)
        gain = self._gains(y, label)
        closer = y.cumsum(1) - y
        drop, joined, displaced = (law[:, None] for law in (self.drop, self.joined, self.displaced))
        pairs = joined * closer + sums_behind((joined + displaced) * y)
        steps = displaced * (y * closer) * (2 / k**2) - drop * gain
        return self.reach[:, None] * gain + sums_behind(steps) - (2 / k**2) * y * pairs

    def for_any_newcomer(
        self,
        labels: Float[Tensor, "references others"],
        label: Float[Tensor, " references"],
        closeness: Float[Tensor, "references others"] | None = None,
    ) -> Float[Tensor, "weights 3 references others+1"]:
        """Return the coefficients of 1, y_i and y_i**2 in the same formula; farther points move back by a rank."""
        k, y = self.k, self.contributions(labels, label, closeness)
        up_to = torch.nn.functional.pad(y.cumsum(1), (1, 0))
        drop, joined, displaced = (law[:, None, 1:] for law in (self.drop, self.joined, self.displaced))
        constant = sums_from(displaced * (y * up_to[:, :-1]) * (2 / k**2) - drop * self._gains(y, label))
        pairs = self.joined[:, None] * up_to + sums_from(joined * y)
        reach = self.reach[:, None].expand_as(pairs)
        return torch.stack([constant, reach * (2 / k) * self.aim(label) - (2 / k**2) * pairs, -reach / k**2], 1)

    def _gains(
        self, y: Float[Tensor, "references ranks"], label: Float[Tensor, " references"]
    ) -> Float[Tensor, "references ranks"]:
        """Return g, what a point adds to an empty coalition."""
        return (2 / self.k) * self.aim(label) * y - y.square() / self.k**2


class NormalizedError(SquaredError):
    """Minus the squared error of the mean of the min(K, members) nearest; an empty coalition predicts the default.

    With z_j the excess of a target over that of the reference point, values are those of `SquaredError` for y = z and
    y* = 0, and what coalitions of s < K members add. With kappa_s = 1/s**2 - 1/K**2, T and Q the sums of z_j and z_j**2
    over all j but i, and M_s the mean of (sum of z)**2 over all coalitions of s others, this is

        -w(0) v0 - sum_{s<K-1} w(s) kappa_{s+1} (z_i**2 + 2 z_i s T / (n-1) + M_s) + sum_{0<s<K} w(s) kappa_s M_s.
    """

    def contributions(
        self,
        labels: Float[Tensor, "references ranks"],
        label: Float[Tensor, " references"],
        closeness: Float[Tensor, "references ranks"] | None = None,  # noqa: ARG002 - a mean has no weights
    ) -> Float[Tensor, "references ranks"]:
        """Return z."""
        return labels - label[:, None]

    def aim(self, label: Float[Tensor, " references"]) -> Float[Tensor, "references 1"]:
        """Return 0."""
        return torch.zeros_like(label)[:, None]

    def by_rank(
        self,
        labels: Float[Tensor, "references ranks"],
        label: Float[Tensor, " references"],
        closeness: Float[Tensor, "references ranks"] | None = None,  # noqa: ARG002 - as above
    ) -> Float[Tensor, "weights references ranks"]:
        """Return the formula of `SquaredError`, and what few members add."""
        z = self.contributions(labels, label)
        others = z.sum(1, keepdim=True) - z, z.square().sum(1, keepdim=True) - z.square()
        constant, slope, square = self._of_few(*others, label)
        return super().by_rank(labels, label).add_(constant + slope * z + square * z.square())

    def for_any_newcomer(
        self,
        labels: Float[Tensor, "references others"],
        label: Float[Tensor, " references"],
        closeness: Float[Tensor, "references others"] | None = None,  # noqa: ARG002 - as above
    ) -> Float[Tensor, "weights 3 references others+1"]:
        """Return the coefficients of `SquaredError`, and what few members add."""
        z = self.contributions(labels, label)
        few = self._of_few(z.sum(1, keepdim=True), z.square().sum(1, keepdim=True), label)
        coefficients = super().for_any_newcomer(labels, label)
        for number, term in enumerate(few):
            coefficients[:, number] += term
        return coefficients

    def _of_few(
        self,
        total: Float[Tensor, "references _"],
        squares: Float[Tensor, "references _"],
        label: Float[Tensor, " references"],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return what few members add, as the coefficients of 1, z_i and z_i**2 for given T and Q."""
        k, others, w = self.k, self.n - 1, self.law[:, -1]
        s = torch.arange(k, dtype=torch.float64, device=w.device)
        excess = 1 / s.clamp(min=1) ** 2 - 1 / k**2  # kappa_s
        joined = w[:, :k] * (1 / (s + 1) ** 2 - 1 / k**2)  # 0 for s = K-1
        # The difference of what M_s is multiplied by, size by size: w(s) (kappa_s - kappa_{s+1}).
        change = (w[:, :k] * excess - joined) * (s > 0)
        single = change @ s / max(others, 1)
        pair = change @ (s * (s - 1)) / max(others * (others - 1), 1)
        nobody = -(label - self.default).square()[:, None]
        constant = (
            single[:, None, None] * squares + pair[:, None, None] * (total.square() - squares) - w[:, :1, None] * nobody
        )
        slope = -2 * (joined @ s / max(others, 1))[:, None, None] * total
        return constant, slope, -joined.sum(1)[:, None, None]
