"""Refine a network's values by a few hundred sampled coalitions: unbiased, with standard errors."""

from fwshapley.explanation.refinement.estimator import refine

__all__ = ["refine"]
