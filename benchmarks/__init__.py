"""Benchmarks: one experiment a table or figure, their records, and the pages made from them. Start with run.py."""
