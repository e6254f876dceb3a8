"""Valuation by networks: one pass for the value of a point, seen or unseen, without the training set."""
