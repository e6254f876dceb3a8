"""Valuation by networks: one pass for the value of a point, seen or unseen, without the training set."""

from fwshapley.valuation.learned.amortized import AmortizedValuator
from fwshapley.valuation.learned.knowledge import Likeness

__all__ = ["AmortizedValuator", "Likeness"]
