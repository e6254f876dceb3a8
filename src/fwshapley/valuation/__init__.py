"""What training points are worth: exact values for nearest neighbours under any weighting."""

from fwshapley.valuation.neighbours import KNNValuator, value_neighbours
from fwshapley.valuation.result import Valuation

__all__ = ["KNNValuator", "Valuation", "value_neighbours"]
