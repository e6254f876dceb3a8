"""How good data values are: detection of wrong labels, curves of retrained models, label noise to test with."""
