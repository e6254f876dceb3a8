from .evaluation.curves import Curve, addition_curve, removal_curve
from .evaluation.detection import Detection, detection_curve, measure_detection
from .evaluation.label_noise import Flipped, flip_labels
from .image_features import CrossFit, cross_fit
from .knn.valuator import KNNValuator, Suggestions, suggest_labels, value_neighbors
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
    "value_neighbors",
    "write_valuation_report",
]
