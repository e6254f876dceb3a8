"""Audit of labeled data: wrong labels, duplicates and outliers, with the evidence for each."""
