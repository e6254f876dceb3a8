"""What training points are worth, and whose labels are wrong."""

from fwshapley.valuation.curves import Curve, addition_curve, removal_curve
from fwshapley.valuation.detection import Detection, detection_curve, measure_detection
from fwshapley.valuation.features import CrossFit, cross_fit
from fwshapley.valuation.learned import AmortizedValuator, Likeness
from fwshapley.valuation.neighbours import KNNValuator, value_neighbours
from fwshapley.valuation.noise import Flipped, flip_labels
from fwshapley.valuation.result import Valuation
from fwshapley.valuation.retraining import RetrainingValuator

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
    "value_neighbours",
]
