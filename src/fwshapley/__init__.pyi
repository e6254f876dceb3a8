from . import datasets, explanation, games, plots, semivalues, valuation
from .estimators import Estimate, least_squares_values, multilinear_values, permutation_values
from .estimators.exact import exact_values, exact_wls_values
from .explanation import baselines
from .explanation.attribution import Attribution
from .explanation.baselines import baseline
from .explanation.error_model import ErrorModel
from .explanation.explainer import FeatureExplainer, FidelityWarning, load
from .explanation.report import write_report
from .explanation.semivalue_selection import ChosenWeights, choose_weights
from .explanation.surrogate import Surrogate, TableSurrogate, measure_fidelity, train_surrogate
from .players import Players, columns, grid, groups, segments
from .semivalues import FEASIBLE_SET, Banzhaf, Beta, Cardinality, LeaveOneOut, Semivalue, Shapley
from .training.budget import Budget, FewStepsWarning, Recipe
from .valuation import (
    AmortizedValuator,
    CrossFit,
    KNNValuator,
    RetrainingValuator,
    Valuation,
    cross_fit,
    value_neighbors,
)
from .version import __version__

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
    "explanation",
    "games",
    "grid",
    "groups",
    "least_squares_values",
    "load",
    "measure_fidelity",
    "multilinear_values",
    "permutation_values",
    "plots",
    "segments",
    "semivalues",
    "train_surrogate",
    "valuation",
    "value_neighbors",
    "write_report",
]
