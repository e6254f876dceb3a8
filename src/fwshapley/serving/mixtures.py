"""A weighting as the input of a network: how much each basis function counts (docs/math.md, eq. 9), without torch.

A weighting is a mixture over t of Banzhaf(t) values, which are psi(t) = sum_j c_j b_j(t): the coefficients c_j of an
input are computed once, and the weighting's values are sum_j c_j E[b_j(t)]. The page does the same in the browser.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from fwshapley.semivalues import Semivalue, check_semivalue

MOMENT_NODES = 256
"""Nodes of the quadrature over t, as in training."""

MAX_BANZHAF_NODES = 64
"""Values of trees are polynomials in t of a degree below the depth of the trees, and below the number of players."""


class Basis(ABC):
    """Functions b_j of t in which values are expanded."""

    @abstractmethod
    def mixture(self, weights: Semivalue) -> Float64[ndarray, " functions"]:
        """Return E[b_j(t)] under a weighting, in the units of the coefficients."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return the basis as the page needs it, JSON-compatible."""

    def mixtures(self, weights: Sequence[Semivalue]) -> Float64[ndarray, "weights functions"]:
        """Return the mixture of each weighting."""
        return np.stack([_mixture(self, check_semivalue(weighting)) for weighting in weights])


@dataclass(frozen=True)
class Hats(Basis):
    """Piecewise linear functions of logit t, of networks that learn every weighting.

    Attributes:
        knots: logit t at which each function peaks, evenly spaced.
        units: of the coefficients.
    """

    knots: tuple[float, ...]
    units: tuple[float, ...]

    def mixture(self, weights: Semivalue) -> Float64[ndarray, " functions"]:
        """Return the moments of the functions, times the units."""
        t, mass = weights.quadrature(MOMENT_NODES)
        knots = np.array(self.knots)
        with np.errstate(divide="ignore"):  # t may be 1
            position = np.clip(np.log(t) - np.log1p(-t), knots[0], knots[-1])
        functions = 1 - np.abs(position[:, None] - knots) / (knots[1] - knots[0])
        return mass @ functions.clip(min=0) * np.array(self.units)

    def facts(self) -> dict[str, Any]:
        """Return knots and units."""
        return {"kind": "hats", "knots": self.knots, "units": self.units}


@dataclass(frozen=True)
class OneWeighting(Basis):
    """The only function of a network that learned one weighting.

    Attributes:
        weights: the weighting.
        unit: of the network's output.
    """

    weights: Semivalue
    unit: float

    def mixture(self, weights: Semivalue) -> Float64[ndarray, " functions"]:
        """Return the unit, for the one weighting; raise a ValueError for any other."""
        if weights != self.weights:
            raise ValueError(
                f"weights must be {self.weights}, the only weighting that this explainer was trained for, got {weights}"
            )
        return np.array([self.unit])

    def facts(self) -> dict[str, Any]:
        """Return the weighting and the unit."""
        return {"kind": "fixed", "weights": str(self.weights), "units": (self.unit,)}


@dataclass(frozen=True)
class BanzhafNodes(Basis):
    """Lagrange polynomials at Chebyshev points: coefficients are the Banzhaf values at these t.

    Attributes:
        t: where Banzhaf values are known.
    """

    t: tuple[float, ...]

    @classmethod
    def of(cls, n_players: int) -> BanzhafNodes:
        """Return points that determine the values of a game of n players, if its degree is at most 64."""
        count = min(n_players, MAX_BANZHAF_NODES)
        angles = (np.arange(count) + 0.5) * np.pi / count
        return cls(tuple(((1 - np.cos(angles)) / 2).tolist()))

    def mixture(self, weights: Semivalue) -> Float64[ndarray, " functions"]:
        """Return the mean of each polynomial, by its barycentric form."""
        t, mass = weights.quadrature(MOMENT_NODES)
        nodes = np.array(self.t)
        signs = np.where(np.arange(len(nodes)) % 2, -1.0, 1.0) * np.sqrt(nodes * (1 - nodes))
        distances = t[:, None] - nodes
        hits = distances == 0
        terms = signs / np.where(hits, 1, distances)
        functions = np.where(hits.any(1)[:, None], hits, terms / terms.sum(1, keepdims=True))
        return mass @ functions

    def facts(self) -> dict[str, Any]:
        """Return the points."""
        return {"kind": "nodes", "t": self.t}


@lru_cache(maxsize=1024)  # its quadrature takes milliseconds, and requests mostly repeat the same weightings
def _mixture(basis: Basis, weights: Semivalue) -> Float64[ndarray, " functions"]:
    return basis.mixture(weights)


def read_basis(facts: Mapping[str, Any]) -> Basis:
    """Return the basis of an objective whose `facts` were saved.

    Args:
        facts: of `fwshapley.objectives.Multilinear` or `Kernel`.
    """
    if facts["name"] == "kernel":
        return OneWeighting(Semivalue.from_json(facts["weights"]), facts["unit"])
    size, edge = facts["basis"]["size"], facts["basis"]["edge"]
    units = facts["unit"] or (1.0,) * size
    return Hats(tuple(np.linspace(-edge, edge, size).tolist()), tuple(units))
