"""Exact data values of nearest-neighbor classifiers, for every weighting."""
