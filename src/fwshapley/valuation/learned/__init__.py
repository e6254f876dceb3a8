"""Valuation by networks: one pass for the value of a point, seen or unseen, without the training set."""

from fwshapley.valuation.learned.knowledge import Likeness
from fwshapley.valuation.learned.valuator import AmortizedValuator

__all__ = ["AmortizedValuator", "Likeness"]
