from . import baselines, metrics
from .attribution import Attribution
from .error_model import ErrorModel
from .explainer import Explainer
from .feature_explainer import FeatureExplainer
from .fidelity import Fidelity, FidelityWarning, measure_fidelity
from .image_explainer import ImageExplainer
from .interventional_explainer import InterventionalExplainer
from .linear_explainer import LinearExplainer
from .pipeline_explainer import PipelineExplainer
from .predictions import Predictions
from .quality import MethodScores, Quality, QualityWarning, Score
from .report import write_report
from .select_output import SelectOutput
from .semivalue_selection import ChosenWeights, choose_weights
from .surrogate import Surrogate, TableSurrogate, train_surrogate

__all__ = [
    "Attribution",
    "ChosenWeights",
    "ErrorModel",
    "Explainer",
    "FeatureExplainer",
    "Fidelity",
    "FidelityWarning",
    "ImageExplainer",
    "InterventionalExplainer",
    "LinearExplainer",
    "MethodScores",
    "PipelineExplainer",
    "Predictions",
    "Quality",
    "QualityWarning",
    "Score",
    "SelectOutput",
    "Surrogate",
    "TableSurrogate",
    "baselines",
    "choose_weights",
    "measure_fidelity",
    "metrics",
    "train_surrogate",
    "write_report",
]
