"""What training points are worth, and whose labels are wrong."""

from fwshapley.valuation.curves import Curve, addition_curve, removal_curve
from fwshapley.valuation.detection import Detection, detection_curve, measure_detection
from fwshapley.valuation.neighbours import KNNValuator, value_neighbours
from fwshapley.valuation.noise import Flipped, flip_labels
from fwshapley.valuation.result import Valuation
from fwshapley.valuation.retraining import RetrainingValuator

__all__ = [
    "Curve",
    "Detection",
    "Flipped",
    "KNNValuator",
    "RetrainingValuator",
    "Valuation",
    "addition_curve",
    "detection_curve",
    "flip_labels",
    "measure_detection",
    "removal_curve",
    "value_neighbours",
]
