"""Which library a model comes from. Nothing here imports numba, which `read_model` needs."""

from __future__ import annotations

import os

LIBRARIES = ("xgboost", "lightgbm", "catboost", "sklearn")  # the first three inherit from scikit-learn
SKLEARN_BASES = ("BaseDecisionTree", "BaseForest", "BaseGradientBoosting", "BaseHistGradientBoosting")


def is_tree_model(model: object) -> bool:
    """Whether a model is a path, an ensemble, or of a class that `read_model` may read."""
    parents = [parent.__name__ for parent in type(model).__mro__]
    if isinstance(model, str | os.PathLike) or "TreeEnsemble" in parents:
        return True
    library = find_library(model)
    return library is not None and (library != "sklearn" or any(name in parents for name in SKLEARN_BASES))


def find_library(model: object) -> str | None:
    """Return the library that defines a model's class, or one that it inherits from."""
    modules = [parent.__module__.split(".")[0] for parent in type(model).__mro__]
    for library in LIBRARIES:
        if library in modules:
            return library
    return None
