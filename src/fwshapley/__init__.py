"""Weighted Shapley values: exact, sampled with standard errors, or predicted in one forward pass."""

from fwshapley import baselines, datasets, games
from fwshapley.baselines import baseline
from fwshapley.choosing import ChosenWeights, choose_weights
from fwshapley.exact import exact_values, exact_wls_values
from fwshapley.explainer import FeatureExplainer, FidelityWarning, load
from fwshapley.explainer_report import write_report
from fwshapley.games import RetrainingUtility
from fwshapley.montecarlo import Estimate, least_squares_values, multilinear_values, permutation_values
from fwshapley.players import Players, columns, grid, groups, segments
from fwshapley.recipes import Budget, Recipe
from fwshapley.results import Attribution
from fwshapley.surrogate import Surrogate, TableSurrogate, measure_fidelity, train_surrogate
from fwshapley.trust import ErrorModel
from fwshapley.valuation import (
    AmortizedValuator,
    CrossFit,
    KNNValuator,
    RetrainingValuator,
    Valuation,
    cross_fit,
    value_neighbours,
)
from fwshapley.version import __version__
from fwshapley.weights import FEASIBLE_SET, Banzhaf, Beta, Cardinality, LeaveOneOut, Semivalue, Shapley

__all__ = [
    "FEASIBLE_SET",
    "AmortizedValuator",
    "Attribution",
    "Banzhaf",
    "Beta",
    "Budget",
    "Cardinality",
    "ChosenWeights",
    "CrossFit",
    "ErrorModel",
    "Estimate",
    "FeatureExplainer",
    "FidelityWarning",
    "KNNValuator",
    "LeaveOneOut",
    "Players",
    "Recipe",
    "RetrainingUtility",
    "RetrainingValuator",
    "Semivalue",
    "Shapley",
    "Surrogate",
    "TableSurrogate",
    "Valuation",
    "__version__",
    "baseline",
    "baselines",
    "choose_weights",
    "columns",
    "cross_fit",
    "datasets",
    "exact_values",
    "exact_wls_values",
    "games",
    "grid",
    "groups",
    "least_squares_values",
    "load",
    "measure_fidelity",
    "multilinear_values",
    "permutation_values",
    "segments",
    "train_surrogate",
    "value_neighbours",
    "write_report",
]
