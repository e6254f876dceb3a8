"""What training points are worth, and whose labels are wrong."""

from fwshapley.valuation.evaluation.curves import Curve, addition_curve, removal_curve
from fwshapley.valuation.evaluation.detection import Detection, detection_curve, measure_detection
from fwshapley.valuation.evaluation.label_noise import Flipped, flip_labels
from fwshapley.valuation.image_features import CrossFit, cross_fit
from fwshapley.valuation.knn.valuator import KNNValuator, value_neighbors
from fwshapley.valuation.learned import AmortizedValuator, Likeness
from fwshapley.valuation.result import Valuation
from fwshapley.valuation.retraining.valuator import RetrainingValuator

__all__ = [
    "AmortizedValuator",
    "CrossFit",
    "Curve",
    "Detection",
    "Flipped",
    "KNNValuator",
    "Likeness",
    "RetrainingValuator",
    "Valuation",
    "addition_curve",
    "cross_fit",
    "detection_curve",
    "flip_labels",
    "measure_detection",
    "removal_curve",
    "value_neighbors",
]
