"""Objectives as they are saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fwshapley.objectives.basis import HatBasis
from fwshapley.objectives.kernel import Kernel
from fwshapley.objectives.multilinear import Multilinear
from fwshapley.semivalues import Semivalue


def objective_from_facts(facts: Mapping[str, Any]) -> Multilinear | Kernel:
    """Return the objective whose `facts` were saved."""
    options = {name: value for name, value in facts.items() if name != "name"}
    if facts["name"] == "kernel":
        spread = None if facts.get("spread") is None else tuple(facts["spread"])
        return Kernel(**options | {"weights": Semivalue.from_json(facts["weights"]), "spread": spread})
    lists = {name: None if facts[name] is None else tuple(facts[name]) for name in ("level", "unit")}
    return Multilinear(**options | {"basis": HatBasis(**facts["basis"])} | lists)
