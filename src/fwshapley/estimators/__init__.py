"""Monte Carlo estimates of any semivalue, with standard errors, within a budget of game calls."""

from fwshapley.estimators.estimate import Estimate
from fwshapley.estimators.least_squares import least_squares_values
from fwshapley.estimators.multilinear import multilinear_values
from fwshapley.estimators.permutation import permutation_values

__all__ = ["Estimate", "least_squares_values", "multilinear_values", "permutation_values"]
