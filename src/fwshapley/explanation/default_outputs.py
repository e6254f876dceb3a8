"""Which outputs are explained unless others are requested. Nothing here imports torch."""

from __future__ import annotations

POSITIVE = 1
"""Number of the positive class of two: scikit-learn sorts classes, and labels are 0 and 1."""


def default_outputs(n_outputs: int, *, are_classes: bool) -> str | list[int]:
    """Return what outputs="auto" stands for: the positive one of two mutually exclusive classes, otherwise "all".

    The values of the other class are the same with the opposite sign.

    Args:
        n_outputs: of the model.
        are_classes: whether they are mutually exclusive classes.
    """
    return [POSITIVE] if are_classes and n_outputs == POSITIVE + 1 else "all"
