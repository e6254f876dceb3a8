from . import baselines, metrics
from .attribution import Attribution
from .explainer import Explainer
from .inputs.predictions import Predictions
from .inputs.select_output import SelectOutput
from .learned.error_model import ErrorModel
from .learned.feature_explainer import FeatureExplainer
from .learned.fidelity import Fidelity, FidelityWarning, measure_fidelity
from .learned.quality import MethodScores, Quality, QualityWarning, Score
from .learned.surrogate import Surrogate, TableSurrogate, train_surrogate
from .report import write_report
from .semivalue_selection import ChosenWeights, choose_weights
from .text.text_attribution import TextAttribution
from .text.text_explainer import TextExplainer
from .untrained.image_explainer import ImageExplainer
from .untrained.interventional_explainer import InterventionalExplainer
from .untrained.linear_explainer import LinearExplainer
from .untrained.pipeline_explainer import PipelineExplainer

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
    "TextAttribution",
    "TextExplainer",
    "baselines",
    "choose_weights",
    "measure_fidelity",
    "metrics",
    "train_surrogate",
    "write_report",
]
