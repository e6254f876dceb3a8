"""How close points are to reference points: the weights of a kernel, or whether they are within a distance."""

from __future__ import annotations

from jaxtyping import Bool, Float64
from torch import Tensor

from fwshapley.valuation.knn.distances import distances_directly
from fwshapley.valuation.knn.problem import NeighborProblem


def weigh_by_kernel(
    problem: NeighborProblem, references: Float64[Tensor, "references columns"], x: Float64[Tensor, "n wide"]
) -> Float64[Tensor, "references n"] | None:
    """Return exp(-distance**2 / (2 radius**2)), or None if the utility has no kernel.

    Args:
        problem: what is valued.
        references: some reference points.
        x: rows of `Places.factor`, of any points.
    """
    if problem.radius is None or not problem.needs_closeness:
        return None
    return _square_distances(problem, references, x).mul_(-0.5 / problem.radius**2).exp_()


def find_inside(
    problem: NeighborProblem, references: Float64[Tensor, "references columns"], x: Float64[Tensor, "n wide"]
) -> Bool[Tensor, "references n"]:
    """Return whether points are at most the radius away from reference points; arguments as above."""
    radius = problem.radius or 0.0
    if problem.is_direct:
        return distances_directly(references, x) <= radius
    return _square_distances(problem, references, x) <= radius**2


def _square_distances(problem: NeighborProblem, references: Tensor, x: Tensor) -> Tensor:
    """Return squared distances, as exactly as they are sorted by."""
    if problem.is_direct:
        return distances_directly(references, x).square_()
    norms = references.square().sum(1, keepdim=True)
    return (norms + x[:, -2]).addmm_(references, x[:, :-2].T, alpha=-2).clamp_(min=0)
