"""Explaining a model: the explainer, its surrogate, its results, and everything that checks them."""
