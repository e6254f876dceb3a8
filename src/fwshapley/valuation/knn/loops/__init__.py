"""Loops that numba compiles: neighbors are sorted, and values added up, for one reference point after another."""
