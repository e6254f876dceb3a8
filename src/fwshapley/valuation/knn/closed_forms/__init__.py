"""Semivalues of nearest-neighbor games in closed form, for every weighting: docs/math.md, section 6."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from fwshapley.games.knn import AnyUtility, Ties
from fwshapley.semivalues import Semivalue
from fwshapley.valuation.knn.closed_forms.brier import Brier
from fwshapley.valuation.knn.closed_forms.form import ClassForm
from fwshapley.valuation.knn.closed_forms.form import ClosedForm as ClosedForm
from fwshapley.valuation.knn.closed_forms.matches import Kernel, Normalized
from fwshapley.valuation.knn.closed_forms.matches import Soft as Soft
from fwshapley.valuation.knn.closed_forms.squared_error import NormalizedError, SquaredError
from fwshapley.valuation.knn.closed_forms.vote import Vote


def make_form(
    utility: AnyUtility,
    weights: Sequence[Semivalue],
    counts: Int[Tensor, " classes"],
    k: int,
    *,
    held_out: bool = False,
    ties: Ties = "lowest",
) -> ClosedForm:
    """Return the closed form of a utility of classes that looks at ranks."""
    if utility == "vote":
        return Vote(weights, counts, k, held_out=held_out, ties=ties)
    kinds: dict[str, type[ClassForm]] = {"soft": Soft, "kernel": Kernel, "normalized": Normalized, "brier": Brier}
    return kinds[utility](weights, counts, k, held_out=held_out)


def make_regression_form(
    utility: AnyUtility,
    weights: Sequence[Semivalue],
    n: int,
    k: int,
    *,
    default: float,
    device: str | torch.device = "cpu",
) -> ClosedForm:
    """Return the closed form of a utility of targets that looks at ranks."""
    kind = NormalizedError if utility == "normalized_error" else SquaredError
    return kind(weights, n, k, default=default, device=device)
