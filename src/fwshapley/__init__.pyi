from . import (
    audit,
    datasets,
    estimators,
    explanation,
    games,
    players,
    plots,
    semivalues,
    serving,
    training,
    trees,
    valuation,
)
from ._internal.loading import load
from ._internal.version import __version__
from .audit import LabelAudit
from .estimators import (
    Estimate,
    exact_values,
    least_squares_values,
    multilinear_values,
    permutation_values,
    proxy_values,
)
from .explanation import (
    Attribution,
    Explainer,
    FeatureExplainer,
    ImageExplainer,
    InterventionalExplainer,
    LinearExplainer,
    PipelineExplainer,
    TextExplainer,
    choose_weights,
    write_report,
)
from .explanation.baselines import baseline
from .players import columns, grid, groups, segments
from .semivalues import Banzhaf, Beta, Cardinality, LeaveOneOut, Semivalue, Shapley
from .serving import load_onnx
from .superpixels import Superpixels
from .text_players import sentences, tokens, words
from .training import Budget
from .trees import TreeExplainer
from .valuation import (
    AmortizedValuator,
    KNNValuator,
    RetrainingValuator,
    Valuation,
    cross_fit,
    value_neighbors,
)

__all__ = [
    "AmortizedValuator",
    "Attribution",
    "Banzhaf",
    "Beta",
    "Budget",
    "Cardinality",
    "Estimate",
    "Explainer",
    "FeatureExplainer",
    "ImageExplainer",
    "InterventionalExplainer",
    "KNNValuator",
    "LabelAudit",
    "LeaveOneOut",
    "LinearExplainer",
    "PipelineExplainer",
    "RetrainingValuator",
    "Semivalue",
    "Shapley",
    "Superpixels",
    "TextExplainer",
    "TreeExplainer",
    "Valuation",
    "__version__",
    "audit",
    "baseline",
    "choose_weights",
    "columns",
    "cross_fit",
    "datasets",
    "estimators",
    "exact_values",
    "explanation",
    "games",
    "grid",
    "groups",
    "least_squares_values",
    "load",
    "load_onnx",
    "multilinear_values",
    "permutation_values",
    "players",
    "plots",
    "proxy_values",
    "segments",
    "semivalues",
    "sentences",
    "serving",
    "tokens",
    "training",
    "trees",
    "valuation",
    "value_neighbors",
    "words",
    "write_report",
]
