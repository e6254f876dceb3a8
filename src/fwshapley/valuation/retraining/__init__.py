"""Data values of any model, by retraining it on coalitions of the training points."""
