"""Exact values of points that were not there, from a stored index: what a point is worth in N + {point}.

For one reference point, a newcomer's value follows from its label and from how many of the n points are closer. The
index keeps, for every reference point, the sorted distances of all points and the value at each of the n + 1 places
between them; a new point costs its distances to the reference points, a binary search each, and a mean.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.progress import ProgressBar
from fwshapley.valuation.knn.closed_forms import ClosedForm, make_form
from fwshapley.valuation.knn.distances import (
    MOST_DIRECT,
    NEVER,
    distances_by_product,
    distances_directly,
    place_more,
    too_close,
    whole_keys,
)
from fwshapley.valuation.knn.engine import Sums
from fwshapley.valuation.knn.problem import Setting

MOST_BYTES = 2**33
"""Largest index."""

BLOCK_BYTES = 2**26
"""Numbers worked on at once, when it is made and when it is asked."""


class NeighborIndex:
    """Sorted distances, and what a newcomer is worth between any two of them, for every reference point.

    Args:
        setting: what is played.
        device: where it is kept, and asked.
        progress: show a progress bar while it is made.
    """

    def __init__(self, setting: Setting, *, device: str = "cpu", progress: bool = True) -> None:
        self.setting, self.device = setting, device
        self.references = torch.from_numpy(setting.places.references).to(device)
        self.label = torch.from_numpy(setting.other_labels).to(device)
        self._forms = _forms_with_newcomer(setting, device)
        count, others = len(self.label), len(setting.labels) - setting.held_out
        # A newcomer's label matters for the soft utility only in so far as it matches.
        self.variants = 2 if setting.utility == "soft" else len(setting.classes)
        size = 8 * count * (others + len(setting.weights) * self.variants * (others + 1))
        if size > MOST_BYTES:
            raise ValueError(
                f"an index of {others} points for {count} reference points takes {size / 2**30:.0f} GiB (limit "
                f"{MOST_BYTES / 2**30:.0f}): take fewer reference points or weightings, or let AmortizedValuator learn"
            )
        self.keys = torch.empty(count, others, dtype=torch.int64, device=device)
        self.table = torch.empty(
            len(setting.weights), self.variants, count, others + 1, dtype=torch.float64, device=device
        )
        self.direct = torch.zeros(count, dtype=torch.bool, device=device)
        self._fill(progress=progress)

    def _fill(self, *, progress: bool) -> None:
        factor, labels = (
            torch.from_numpy(each).to(self.device) for each in (self.setting.places.factor, self.setting.labels)
        )
        if len(self.setting.places.factor) * self.setting.columns * len(self.label) <= MOST_DIRECT:
            self.direct[:] = True
        others = self.keys.shape[1]
        rows = max(BLOCK_BYTES // (8 * len(factor) * len(self.setting.classes)), 1)
        with ProgressBar("indexing", len(self.label), enabled=progress) as bar:
            for here in _blocks(len(self.label), rows):
                keys, order = self._sorted(here, factor)
                again = _flags(too_close(keys, order), len(keys)) & ~self.direct[here]
                if bool(again.any()):
                    self.direct[here] |= again
                    keys, order = self._sorted(here, factor)
                self.keys[here] = keys.gather(1, order)[:, :others]
                self._fill_table(here, labels[order[:, :others]])
                bar.advance(len(keys))

    def _sorted(self, here: slice, factor: Tensor) -> tuple[Int64[Tensor, "rows n"], Int64[Tensor, "rows n"]]:
        keys = self._keys(here, factor)
        if self.setting.held_out:
            rows = torch.arange(len(keys), device=keys.device)
            keys[rows, here.start + rows] = NEVER
        return keys, keys.sort(dim=1, stable=True).indices

    def _fill_table(self, here: slice, labels: Int64[Tensor, "rows others"]) -> None:
        label = self.label[here]
        for variant in range(self.variants):
            newcomer = torch.full_like(label, variant)
            if self.setting.utility == "soft":
                newcomer = (label + variant) % len(self.setting.classes)
            form = self._forms[variant % len(self._forms)]
            values = form.for_newcomer(labels, label, newcomer)
            for farthest, where in ((labels[:, -1], slice(-1)), (newcomer, slice(-1, None))):
                by_class = form.by_class(label, farthest)
                if by_class is not None:
                    values[..., where] += by_class.gather(2, newcomer.expand(len(values), -1)[..., None])
            self.table[:, variant, here] = values

    def _keys(self, here: slice, factor: Float64[Tensor, "points wide"]) -> Int64[Tensor, "rows points"]:
        """Distances to sort by, of some reference points from any points."""
        references, direct = self.references[here], self.direct[here]
        keys = torch.empty(len(references), len(factor), dtype=torch.int64, device=factor.device)
        if bool(direct.any()):
            keys[direct] = distances_directly(references[direct], factor).view(torch.int64)
        if not bool(direct.all()):
            found = distances_by_product(references[~direct], factor, self.setting.places.scale)
            keys[~direct] = whole_keys(found)
        return keys

    def value(self, x: NDArray[np.float64], labels: Int64[Tensor, " points"]) -> Sums:
        """Sums over reference points of the values of new points, each in the company of the n alone."""
        factor = torch.from_numpy(place_more(x, self.setting.places.center, self.setting.metric)).to(self.device)
        labels = labels.to(self.device)
        weights, _, count, places = self.table.shape
        table = self.table.flatten(1)
        sums = Sums(table.new_zeros(weights, len(x)), table.new_zeros(weights, len(x)))
        for here in _blocks(count, max(BLOCK_BYTES // (8 * len(x) * weights), 1)):
            closer = torch.searchsorted(self.keys[here], self._keys(here, factor), right=True)
            label = self.label[here][:, None]
            variant = labels.expand(len(label), -1)
            if self.setting.utility == "soft":
                variant = (variant != label).long()
            row = torch.arange(here.start, here.start + len(label), device=table.device)[:, None]
            sums.add(table[:, (variant * count + row) * places + closer])
        return sums


def _forms_with_newcomer(setting: Setting, device: str) -> list[ClosedForm]:
    """Closed form of the game that a point of each class has joined; the soft one is the same for all."""
    counts = torch.bincount(torch.from_numpy(setting.labels), minlength=len(setting.classes)).to(device)
    joined = torch.eye(len(setting.classes), dtype=torch.int64, device=device)[
        : 1 if setting.utility == "soft" else None
    ]
    return [
        make_form(
            setting.utility, setting.weights, counts + one, setting.k, held_out=setting.held_out, ties=setting.ties
        )
        for one in joined
    ]


def _blocks(count: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _flags(rows: Int64[Tensor, " some"], count: int) -> Tensor:
    return torch.zeros(count, dtype=torch.bool, device=rows.device).index_fill_(0, rows, value=True)
