from .evaluation.curves import Curve, addition_curve, removal_curve
from .evaluation.detection import Detection, detection_curve, measure_detection
from .evaluation.label_noise import Flipped, flip_labels
from .image_features import CrossFit, cross_fit
from .knn.suggestions import SuggestedTargets, Suggestions, suggest_labels, suggest_targets
from .knn.valuator import KNNValuator, value_neighbors
from .learned.fidelity import ValuationFidelity
from .learned.valuator import AmortizedValuator
from .report import write_valuation_report
from .result import Valuation
from .retraining.valuator import RetrainingValuator

__all__ = [
    "AmortizedValuator",
    "CrossFit",
    "Curve",
    "Detection",
    "Flipped",
    "KNNValuator",
    "RetrainingValuator",
    "SuggestedTargets",
    "Suggestions",
    "Valuation",
    "ValuationFidelity",
    "addition_curve",
    "cross_fit",
    "detection_curve",
    "flip_labels",
    "measure_detection",
    "removal_curve",
    "suggest_labels",
    "suggest_targets",
    "value_neighbors",
    "write_valuation_report",
]
