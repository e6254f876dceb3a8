"""The basis in which an explainer expands its values: psi(x, t) = sum_j c_j(x) b_j(t).

A network computes the coefficients c once. A weighting is then a dot product with its moments E[b_j(t)]
(docs/math.md, eq. 9), so any number of weightings costs one pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from fwshapley.semivalues import Semivalue

MOMENT_NODES = 256


@dataclass(frozen=True)
class HatBasis:
    """Piecewise linear functions of logit t with `size` knots evenly spaced on [-edge, edge], constant beyond."""

    size: int = 12
    edge: float = 5.5

    def knots(self, like: Tensor) -> Float[Tensor, " {self.size}"]:
        """Logit t at which each function peaks, with the dtype and device of another tensor."""
        return torch.linspace(-self.edge, self.edge, self.size, device=like.device, dtype=like.dtype)

    def __call__(self, t: Float[Tensor, " *shape"]) -> Float[Tensor, "*shape {self.size}"]:
        """Value of every function at every t."""
        knots = self.knots(t)
        spacing = 2 * self.edge / (self.size - 1)
        position = torch.logit(t).clamp(-self.edge, self.edge)
        return (1 - (position[..., None] - knots).abs() / spacing).clamp(min=0)

    def moments(self, weights: Semivalue) -> Float[Tensor, " {self.size}"]:
        """Mean of every function under the semivalue's mixture over t."""
        return _moments(self, weights).clone()


@lru_cache(maxsize=256)  # explanations mostly repeat the same weightings
def _moments(basis: HatBasis, weights: Semivalue) -> Tensor:
    t, mass = map(torch.from_numpy, weights.quadrature(MOMENT_NODES))
    return mass @ basis(t)
