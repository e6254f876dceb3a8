"""Squared error of the shares that classes have among the nearest neighbors: docs/math.md, section 6."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fwshapley.semivalues import Semivalue
from fwshapley.valuation.knn.closed_forms.class_order import order_by_class
from fwshapley.valuation.knn.closed_forms.form import ClassForm, sums_behind, sums_from
from fwshapley.valuation.knn.closed_forms.squared_error import pair_laws


class Brier(ClassForm):
    """Minus the sum over classes of (members of the class among the K nearest / K - 1[class is the label])**2.

    This is `SquaredError` of the indicator of each class, summed over classes. With N_l the number of points of the
    class of l that are closer than l,

        phi_i = c_i g_i - sum_{l>i} d_l g_l - (2/K**2) [A_i N_i + sum_{l>i, y_l=y_i} (A_l + B_l) - sum_{l>i} B_l N_l],

    where g_j = 2/K - 1/K**2 for a match, else -1/K**2; d_l is `drop`, and A and B are those of `pair_laws`.
    """

    def __init__(
        self, weights: Sequence[Semivalue], counts: Int[Tensor, " classes"], k: int, *, held_out: bool = False
    ) -> None:
        super().__init__(weights, counts, k, held_out=held_out)
        self.joined, self.displaced = pair_laws(self.law, k)

    def by_rank(
        self,
        labels: Int[Tensor, "references ranks"],
        label: Int[Tensor, " references"],
        closeness: Float[Tensor, "references ranks"] | None = None,  # noqa: ARG002 - shares have no weights
    ) -> Float[Tensor, "weights references ranks"]:
        """Return the formula; points of the same class are summed in the order of classes."""
        order = order_by_class(labels)
        gain, closer = self._gains(labels, label), (order.counts - 1).double()
        values = []
        for reach, drop, joined, displaced in zip(self.reach, self.drop, self.joined, self.displaced, strict=True):
            both = joined + displaced
            same = order.sum_behind(both.expand_as(closer))
            steps = displaced * closer * (2 / self.k**2) - drop * gain
            values.append(reach * gain + sums_behind(steps) - (2 / self.k**2) * (joined * closer + same))
        return torch.stack(values)

    def for_newcomer(
        self,
        labels: Int[Tensor, "references others"],
        label: Int[Tensor, " references"],
        newcomer: Int[Tensor, " references"],
    ) -> Float[Tensor, "weights references others+1"]:
        """Return the same formula; the new point is one more of its class, and farther points move back by a rank."""
        drop, joined, displaced = (law[:, None, 1:] for law in (self.drop, self.joined, self.displaced))
        member = (labels == newcomer[:, None]).double()
        up_to = torch.nn.functional.pad(member.cumsum(1), (1, 0))
        pairs = self.joined[:, None] * up_to + sums_from(joined * member)
        steps = displaced * (order_by_class(labels).counts - 1) * (2 / self.k**2) - drop * self._gains(labels, label)
        own = self._gains(newcomer[:, None], label)
        return self.reach[:, None] * own + sums_from(steps) - (2 / self.k**2) * pairs

    def _gains(
        self, labels: Int[Tensor, "references ranks"], label: Int[Tensor, " references"]
    ) -> Float[Tensor, "references ranks"]:
        """Return g, what a point adds to an empty coalition."""
        return (labels == label[:, None]).double() * (2 / self.k) - 1 / self.k**2
