"""Monte Carlo estimates of any semivalue, with standard errors, within a budget of game calls."""

from fwshapley.montecarlo.least_squares import least_squares_values
from fwshapley.montecarlo.multilinear import multilinear_values
from fwshapley.montecarlo.permutation import permutation_values
from fwshapley.montecarlo.run import Estimate

__all__ = ["Estimate", "least_squares_values", "multilinear_values", "permutation_values"]
