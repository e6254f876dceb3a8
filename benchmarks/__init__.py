"""Benchmarks: one experiment per table or figure, their records, and the pages made from them. Start with run.py."""
