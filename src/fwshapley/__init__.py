"""Weighted Shapley values: exact, or sampled with standard errors, for any semivalue."""

from fwshapley import games
from fwshapley.exact import exact_values, exact_wls_values
from fwshapley.montecarlo import Estimate, least_squares_values, multilinear_values, permutation_values
from fwshapley.players import Players, grid, groups, segments
from fwshapley.weights import FEASIBLE_SET, Banzhaf, Beta, Cardinality, LeaveOneOut, Semivalue, Shapley

__version__ = "0.1.0"

__all__ = [
    "FEASIBLE_SET",
    "Banzhaf",
    "Beta",
    "Cardinality",
    "Estimate",
    "LeaveOneOut",
    "Players",
    "Semivalue",
    "Shapley",
    "exact_values",
    "exact_wls_values",
    "games",
    "grid",
    "groups",
    "least_squares_values",
    "multilinear_values",
    "permutation_values",
    "segments",
]
