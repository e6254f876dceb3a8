"""What a user asks of an explainer, resolved: which objective, which weightings, which total."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from fwshapley._internal.checks import check_choice
from fwshapley.objectives import Kernel, Multilinear, Objective, SumConstraint
from fwshapley.semivalues import Kernel as KernelKind
from fwshapley.semivalues import Semivalue, Shapley, Total, check_semivalue

ObjectiveName = Literal["multilinear", "kernel"]


def choose_objective(
    objective: ObjectiveName | Objective, weights: Semivalue | None, kernel: KernelKind, constraint: SumConstraint
) -> Objective:
    """Return the objective that the arguments of an explainer stand for."""
    if isinstance(objective, (Multilinear, Kernel)):
        if weights is not None or (kernel, constraint) != ("exact", "center"):
            raise ValueError("weights, kernel and constraint go with objective='kernel'; an Objective has its own")
        return objective
    check_choice("objective", objective, get_args(ObjectiveName))
    if objective == "kernel" and weights is None:
        raise ValueError("objective='kernel' learns one weighting: say which by weights=...")
    if objective == "multilinear" and weights is not None:
        raise ValueError("'multilinear' learns all weightings: give weights to explain, or use objective='kernel'")
    if weights is None and (kernel, constraint) != ("exact", "center"):
        raise ValueError("kernel and constraint are options of objective='kernel'; 'multilinear' has neither")
    return Multilinear() if weights is None else Kernel(check_semivalue(weights), kernel, constraint)


def choose_weightings(objective: Objective, weights: Semivalue | Sequence[Semivalue] | None) -> list[Semivalue]:
    """Return the weightings asked for; by default Shapley, or the one that was learned."""
    if weights is None:
        return [objective.weights if isinstance(objective, Kernel) else Shapley()]
    several = list(weights) if isinstance(weights, (list, tuple)) else [check_semivalue(weights)]
    if not several:
        raise ValueError("weights is an empty list; give a semivalue or several")
    return [check_semivalue(each) for each in several]


def choose_total(objective: Objective, total: Total | Literal["auto"]) -> Total:
    """Return which total values have: raw where it is known, unless asked otherwise."""
    check_choice("total", total, ("auto", *get_args(Total)))
    shifted = isinstance(objective, Kernel) and objective.weights != Shapley()
    if total == "raw" and shifted:
        raise ValueError(
            "the kernel objective learns values up to a common shift: ask for total='efficient', or train with "
            "objective='multilinear' for raw values"
        )
    if isinstance(objective, Kernel):
        return "efficient"
    return "raw" if total == "auto" else total
