"""Losses that turn the worth of sampled coalitions into attributions, with no ground truth.

Both are least squares whose minimizer over psi is the semivalue. In expectation their differences are differences of
squared error (docs/math.md, eq. 8), so models may be compared by their loss on shared coalitions.

An objective draws coalitions of a batch of inputs, asks what they are worth, and holds a network's output against the
answers. `Multilinear` learns psi(t) for every t, hence every weighting; `Kernel` learns one weighting up to a shift.
"""

from fwshapley.objectives.basis import HatBasis
from fwshapley.objectives.kernel import Kernel, SumConstraint
from fwshapley.objectives.losses import centered_loss, kernel_loss, multilinear_loss, shift_to_total
from fwshapley.objectives.multilinear import Multilinear, draw_t
from fwshapley.objectives.objective import Objective, Sample
from fwshapley.objectives.saved import objective_from_facts

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
