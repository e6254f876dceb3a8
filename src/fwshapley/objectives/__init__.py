"""Training objectives that turn the values of sampled coalitions into attributions, without ground truth.

Both are least squares whose minimizer is the semivalue. Differences of their expected losses are differences of
squared error (docs/math.md, eq. 8), so networks can be compared by their losses on shared coalitions.

An objective draws coalitions for a batch of inputs, evaluates the game, and compares a network's output with the
result. `Multilinear` learns psi(t) for every t, hence every weighting; `Kernel` learns one weighting up to a shift.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fwshapley.objectives.kernel import Kernel, SumConstraint, kernel_loss
from fwshapley.objectives.losses import Sample, centered_loss, shift_to_total
from fwshapley.objectives.multilinear import HatBasis, Multilinear, draw_t, multilinear_loss
from fwshapley.semivalues import Semivalue

__all__ = [
    "HatBasis",
    "Kernel",
    "Multilinear",
    "Objective",
    "Sample",
    "SumConstraint",
    "centered_loss",
    "draw_t",
    "kernel_loss",
    "multilinear_loss",
    "objective_from_facts",
    "shift_to_total",
]

Objective = Multilinear | Kernel


def objective_from_facts(facts: Mapping[str, Any]) -> Objective:
    """Return the objective whose `facts` were saved."""
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()
    }
    if options.pop("name") == "kernel":
        return Kernel(**{**options, "weights": Semivalue.from_json(facts["weights"])})
    return Multilinear(**{**options, "basis": HatBasis(**facts["basis"])})
