"""Evaluation of data values: detection of wrong labels, curves of retrained models, label noise to test with."""
