"""Values where all points within a distance are neighbors: of training points, and of new points.

A reference point matters through a few sums over the points that are within its distance, so nothing is sorted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64, Num
from numpy.typing import NDArray
from torch import Tensor

from fwshapley.valuation.knn.closed_forms.radius import RadiusForm
from fwshapley.valuation.knn.closeness import find_inside
from fwshapley.valuation.knn.distances import place_more
from fwshapley.valuation.knn.problem import NeighborProblem

BLOCK_BYTES = 2**26
"""Memory for the distances of one block of reference points."""


class Inside(NamedTuple):
    """Sums over the points within the distance of each reference point.

    Attributes:
        number: how many there are.
        total: how many match; for targets, the sum of their excesses over the target of the reference point.
        squares: the sum of the squared excesses.
    """

    number: Int64[Tensor, "references 1"]
    total: Float64[Tensor, "references 1"]
    squares: Float64[Tensor, "references 1"]


def sum_part_inside(
    problem: NeighborProblem,
    x: Float64[Tensor, "n wide"],
    y: Num[Tensor, " n"],
    part: slice,
) -> Float64[Tensor, "2 weights n"]:
    """Return the sums over some reference points of the values of each point, and of the squared values.

    Args:
        problem: what is valued.
        x: rows of `Places.factor`.
        y: labels or targets of the points.
        part: which reference points.
    """
    form = problem.radius_form()
    references = torch.tensor(problem.reference[part], device=x.device)
    labels = torch.tensor(problem.reference_labels[part], device=x.device)
    total = x.new_zeros(2, len(problem.weights), len(x))
    size = max(BLOCK_BYTES // (8 * len(x) * len(problem.weights)), 1)
    for start in range(0, len(references), size):
        block, label = references[start : start + size], labels[start : start + size]
        inside = _find_players(problem, block, x, part.start + start)
        own = _contribute(problem, y, label)
        sums = _sum_inside(own, inside)
        others = Inside((sums.number - 1).clamp(min=0), sums.total - own, sums.squares - own.square())
        values = _value(problem, form, own, label, others) * inside
        total[0] += values.sum(1)
        total[1] += values.square_().sum(1)
    return total


class RadiusIndex:
    """Sums over the points within the distance of each reference point, from which new points are valued.

    Args:
        problem: the training points and reference points.
        device: where the sums are stored and used.
    """

    def __init__(self, problem: NeighborProblem, *, device: str = "cpu") -> None:
        self.problem = problem
        self.form = RadiusForm(problem.weights, problem.n - problem.held_out + 1)
        self.references = torch.from_numpy(problem.reference).to(device)
        self.labels = torch.from_numpy(problem.reference_labels).to(device)
        x, y = (torch.from_numpy(array).to(device) for array in (problem.places.factor, problem.labels))
        parts = []
        size = max(BLOCK_BYTES // (8 * len(x)), 1)
        for start in range(0, len(self.references), size):
            inside = _find_players(problem, self.references[start : start + size], x, start)
            parts.append(_sum_inside(_contribute(problem, y, self.labels[start : start + size]), inside))
        self.sums = Inside(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def sum_values(self, x: NDArray[np.float64], labels: Num[Tensor, " points"]) -> Float64[Tensor, "2 weights points"]:
        """Return sums over the reference points of the values of new points, and of the squared values."""
        problem, device = self.problem, self.references.device
        factor = torch.from_numpy(place_more(x, problem.places.center, problem.metric)).to(device)
        labels = labels.to(device)
        total = factor.new_zeros(2, len(problem.weights), len(x))
        size = max(BLOCK_BYTES // (8 * len(x) * len(problem.weights)), 1)
        for start in range(0, len(self.references), size):
            some = slice(start, start + size)
            inside = find_inside(problem, self.references[some], factor)
            sums = Inside(*(column[some] for column in self.sums))
            own = _contribute(problem, labels, self.labels[some])
            values = _value(problem, self.form, own, self.labels[some], sums) * inside
            total[0] += values.sum(1)
            total[1] += values.square_().sum(1)
        return total.cpu()


def _find_players(problem: NeighborProblem, block: Tensor, x: Tensor, first: int) -> Bool[Tensor, "references n"]:
    """Return which points are within the distance of reference points, each of which is no player of its own game."""
    inside = find_inside(problem, block, x)
    if problem.held_out:
        rows = torch.arange(len(block), device=x.device)
        inside[rows, torch.from_numpy(problem.own[first : first + len(block)]).to(x.device)] = False
    return inside


def _contribute(problem: NeighborProblem, y: Num[Tensor, " n"], label: Num[Tensor, " references"]) -> Tensor:
    """Return matches, or the excesses of targets over those of the reference points, by (reference, point)."""
    return y - label[:, None] if problem.task == "regression" else (y == label[:, None]).double()


def _sum_inside(own: Float64[Tensor, "references n"], inside: Bool[Tensor, "references n"]) -> Inside:
    chosen = own * inside
    return Inside(inside.sum(1, keepdim=True), chosen.sum(1, keepdim=True), chosen.square().sum(1, keepdim=True))


def _value(
    problem: NeighborProblem,
    form: RadiusForm,
    own: Float64[Tensor, "references points"],
    label: Num[Tensor, " references"],
    others: Inside,
) -> Float64[Tensor, "weights references points"]:
    """Return the values that points have if they are within the distance.

    Args:
        problem: what is valued.
        form: its closed form.
        own: what each point contributes.
        label: label or target of each reference point.
        others: sums over the other points within the distance.
    """
    if problem.task == "regression":
        nobody = -(label - problem.default).square()[:, None]
        return form.of_targets(own, others.number, others.total, others.squares, empty=nobody)
    return form.of_labels(own, others.number, others.total, empty=1 / len(problem.classes))
