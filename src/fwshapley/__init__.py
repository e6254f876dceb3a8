"""Weighted Shapley values: exact, sampled with standard errors, or predicted in one forward pass."""

import fwshapley._internal.openmp  # noqa: F401 - for what it sets, before torch is imported

# isort: split
from fwshapley import datasets, games
from fwshapley.estimators import Estimate, least_squares_values, multilinear_values, permutation_values
from fwshapley.estimators.exact import exact_values, exact_wls_values
from fwshapley.explanation import baselines
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.baselines import baseline
from fwshapley.explanation.error_model import ErrorModel
from fwshapley.explanation.explainer import FeatureExplainer, FidelityWarning, load
from fwshapley.explanation.report import write_report
from fwshapley.explanation.semivalue_selection import ChosenWeights, choose_weights
from fwshapley.explanation.surrogate import Surrogate, TableSurrogate, measure_fidelity, train_surrogate
from fwshapley.games import RetrainingUtility
from fwshapley.players import Players, columns, grid, groups, segments
from fwshapley.semivalues import FEASIBLE_SET, Banzhaf, Beta, Cardinality, LeaveOneOut, Semivalue, Shapley
from fwshapley.training.budget import Budget, FewStepsWarning, Recipe
from fwshapley.valuation import (
    AmortizedValuator,
    CrossFit,
    KNNValuator,
    RetrainingValuator,
    Valuation,
    cross_fit,
    value_neighbors,
)
from fwshapley.version import __version__

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
    "FewStepsWarning",
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
    "value_neighbors",
    "write_report",
]
