"""Ranks ordered by class: sums over the points of a class, for all classes at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from fwshapley.valuation.knn.closed_forms.form import sums_from


class ClassOrder(NamedTuple):
    """Ranks ordered by class, from near to far in each.

    Attributes:
        ranks: the ranks in this order.
        ends: number of ranks up to the last of the same class, by position in this order.
        counts: number of points of the class of each rank up to it, by rank.
    """

    ranks: Int[Tensor, "references n"]
    ends: Int[Tensor, "references n"]
    counts: Int[Tensor, "references n"]

    def sum_behind(self, steps: Float[Tensor, "references n"]) -> Float[Tensor, "references n"]:
        """Return by rank the sum of the steps, given by rank, at all farther points of the same class."""
        sums = sums_from(steps.gather(1, self.ranks))  # also over the points of later classes
        return torch.empty_like(steps).scatter_(1, self.ranks, sums[:, 1:] - sums.gather(1, self.ends))


def order_by_class(labels: Int[Tensor, "references n"]) -> ClassOrder:
    """Return the order of ranks by class."""
    if labels.device.type == "cpu" and int(labels.max()) < 2**16:  # numpy sorts 16 bits by radix
        short = labels.numpy().astype(np.uint16)
        ranks = torch.from_numpy(np.argsort(short, axis=1, kind="stable"))
    else:
        ranks = labels.argsort(dim=1, stable=True)
    ordered = labels.gather(1, ranks)
    counts = labels.new_zeros(len(labels), int(labels.max()) + 1).scatter_add_(1, labels, torch.ones_like(labels))
    all_ends = counts.cumsum(1)
    place = torch.arange(1, labels.shape[1] + 1, device=labels.device) - (all_ends - counts).gather(1, ordered)
    return ClassOrder(ranks, all_ends.gather(1, ordered), torch.empty_like(ordered).scatter_(1, ranks, place))
