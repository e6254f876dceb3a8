"""Exact values of new points from an index: the value of a point in the game of all training points and itself.

For one reference point, the value of a new point depends on its label or target and on how many of the n training
points are closer. The index contains, for every reference point, the sorted distances of all training points and the
value at each of the n + 1 positions between them: for each label, or as a polynomial in what the new point contributes.
A new point costs its distances to the reference points, a binary search in each row, and a mean.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float64, Int64, Num
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.progress import ProgressBar
from fwshapley.valuation.knn.closed_forms import ClosedForm, make_form, make_regression_form
from fwshapley.valuation.knn.closeness import weigh_by_kernel
from fwshapley.valuation.knn.distances import (
    NEVER,
    distances_by_product,
    distances_directly,
    place_more,
    too_close,
    whole_keys,
)
from fwshapley.valuation.knn.problem import NeighborProblem

MAX_BYTES = 2**33
"""Largest index."""

BLOCK_BYTES = 2**26
"""Memory for the work on one block of reference points."""


class NeighborIndex:
    """Sorted distances of the training points, and the value of a new point between any two of them.

    Args:
        problem: the training points and reference points.
        device: where the index is stored and used.
        progress: show a progress bar while the index is made.
    """

    def __init__(self, problem: NeighborProblem, *, device: str = "cpu", progress: bool = True) -> None:
        self.problem = problem
        count, others = len(problem.reference_labels), problem.n - problem.held_out
        self._forms = _forms_with_newcomer(problem, device)
        degree = self._forms[0].degree
        self.variants = len(problem.classes) if degree is None else degree + 1
        size = 8 * count * (others + len(problem.weights) * self.variants * (others + 1))
        if size > MAX_BYTES:
            raise ValueError(
                f"the index of {others} points for {count} reference points needs {size / 2**30:.0f} GiB (limit "
                f"{MAX_BYTES / 2**30:.0f}); use fewer reference points or weightings, or AmortizedValuator"
            )
        self.factor = torch.from_numpy(problem.places.factor).to(device)
        self.references = torch.from_numpy(problem.reference).to(device)
        self.reference_labels = torch.from_numpy(problem.reference_labels).to(device)
        self.keys = torch.empty(count, others, dtype=torch.int64, device=device)
        self.table = torch.empty(
            len(problem.weights), self.variants, count, others + 1, dtype=torch.float64, device=device
        )
        self.direct = torch.full((count,), problem.is_direct, device=device)
        rows = max(BLOCK_BYTES // (8 * problem.n * self.variants), 1)
        with ProgressBar("indexing", count, enabled=progress) as bar:
            for block in _divide(count, rows):
                self._fill(block)
                bar.advance(block.stop - block.start)

    def _fill(self, block: slice) -> None:
        """Store the sorted distances and the values for some reference points."""
        others = self.keys.shape[1]
        keys, order = self._sort(block)
        again = torch.zeros(len(keys), dtype=torch.bool, device=keys.device)
        again[too_close(keys, order)] = True
        if bool((again & ~self.direct[block]).any()):
            self.direct[block] |= again
            keys, order = self._sort(block)
        self.keys[block] = keys.gather(1, order)[:, :others]
        self._fill_table(block, order[:, :others])

    def _sort(self, block: slice) -> tuple[Int64[Tensor, "rows n"], Int64[Tensor, "rows n"]]:
        keys = self._make_keys(block, self.factor)
        if self.problem.held_out:
            rows = torch.arange(len(keys), device=keys.device)
            keys[rows, torch.from_numpy(self.problem.own[block]).to(keys.device)] = NEVER
        return keys, keys.sort(dim=1, stable=True).indices

    def _fill_table(self, block: slice, order: Int64[Tensor, "rows others"]) -> None:
        reference_labels, references = self.reference_labels[block], self.references[block]
        labels = torch.from_numpy(self.problem.labels).to(self.factor.device)[order]
        if self._forms[0].degree is not None:
            closeness = weigh_by_kernel(self.problem, references, self.factor)
            near = None if closeness is None else closeness.gather(1, order)
            self.table[:, :, block] = self._forms[0].for_any_newcomer(labels, reference_labels, near)
            return
        for variant, form in enumerate(self._forms):
            new = torch.full_like(reference_labels, variant)
            values = form.for_newcomer(labels, reference_labels, new)
            for farthest, where in ((labels[:, -1], slice(-1)), (new, slice(-1, None))):
                by_class = form.by_class(reference_labels, farthest)
                if by_class is not None:
                    values[..., where] += by_class.gather(2, new.expand(len(values), -1)[..., None])
            self.table[:, variant, block] = values

    def _make_keys(self, block: slice, factor: Float64[Tensor, "points wide"]) -> Int64[Tensor, "rows points"]:
        """Return keys to sort any points by, for some reference points."""
        references, direct = self.references[block], self.direct[block]
        keys = torch.empty(len(references), len(factor), dtype=torch.int64, device=factor.device)
        if bool(direct.any()):
            keys[direct] = distances_directly(references[direct], factor).view(torch.int64)
        if not bool(direct.all()):
            products = distances_by_product(references[~direct], factor, self.problem.places.scale)
            keys[~direct] = whole_keys(products)
        return keys

    def sum_values(self, x: NDArray[np.float64], labels: Num[Tensor, " points"]) -> Float64[Tensor, "2 weights points"]:
        """Return sums over the reference points of the values of new points, and of the squared values."""
        device = self.factor.device
        factor = torch.from_numpy(place_more(x, self.problem.places.center, self.problem.metric)).to(device)
        labels = labels.to(device)
        weights = len(self.table)
        total = self.table.new_zeros(2, weights, len(x))
        for block in _divide(len(self.references), max(BLOCK_BYTES // (8 * len(x) * weights), 1)):
            values = self._look_up(block, factor, labels)
            total[0] += values.sum(1)
            total[1] += values.square().sum(1)
        return total.cpu()

    def _look_up(
        self, block: slice, factor: Float64[Tensor, "points wide"], labels: Num[Tensor, " points"]
    ) -> Float64[Tensor, "weights rows points"]:
        """Return the values of new points for some reference points."""
        _, _, count, positions = self.table.shape
        table = self.table.flatten(1)
        closer = torch.searchsorted(self.keys[block], self._make_keys(block, factor), right=True)
        row = torch.arange(block.start, block.stop, device=factor.device)[:, None]
        form = self._forms[0]
        if form.degree is None:
            return table[:, (labels * count + row) * positions + closer]
        references, label = self.references[block], self.reference_labels[block]
        closeness = weigh_by_kernel(self.problem, references, factor)
        own = form.contributions(labels.expand(len(label), -1), label, closeness)
        values = table[:, (form.degree * count + row) * positions + closer]
        for power in reversed(range(form.degree)):
            values = values * own + table[:, (power * count + row) * positions + closer]
        return values


def _forms_with_newcomer(problem: NeighborProblem, device: str) -> list[ClosedForm]:
    """Return the closed form of the game that a new point of each class has joined; one if all are the same."""
    if problem.task == "regression":
        n = problem.n - problem.held_out + 1
        form = make_regression_form(
            problem.utility, problem.weights, n, problem.k, default=problem.default, device=device
        )
        return [form]
    counts = torch.tensor(problem.counts, device=device)
    forms = []
    for one in torch.eye(len(counts), dtype=torch.int64, device=device):
        forms.append(
            make_form(
                problem.utility, problem.weights, counts + one, problem.k, held_out=problem.held_out, ties=problem.ties
            )
        )
        if forms[0].degree is not None:
            break
    return forms


def _divide(count: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
