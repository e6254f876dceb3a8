"""Training of every network of the package: one loop on accelerate, budgets in seconds or steps, checkpoints."""

from fwshapley.training.budget import Budget, FewStepsWarning, History, TrainingOptions

__all__ = ["Budget", "FewStepsWarning", "History", "TrainingOptions"]
