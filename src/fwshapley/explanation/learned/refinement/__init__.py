"""Correct a network's values with a few hundred sampled coalitions: unbiased values with standard errors."""

from fwshapley.explanation.learned.refinement.correction import refine

__all__ = ["refine"]
