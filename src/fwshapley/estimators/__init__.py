"""Values of any game under any semivalue: exact by enumeration, or sampled with standard errors."""

from fwshapley.estimators.estimate import Estimate
from fwshapley.estimators.exact import exact_values, exact_wls_values
from fwshapley.estimators.least_squares import least_squares_values
from fwshapley.estimators.multilinear import multilinear_values
from fwshapley.estimators.permutation import permutation_values
from fwshapley.estimators.proxy import proxy_values

__all__ = [
    "Estimate",
    "exact_values",
    "exact_wls_values",
    "least_squares_values",
    "multilinear_values",
    "permutation_values",
    "proxy_values",
]
