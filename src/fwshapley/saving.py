"""Explainers on disk: a folder with one safetensors file of tensors and facts, and no code.

A copy of the user's model is part of every explainer of images. Its tensors are saved; its architecture is Python and
is not, so `load` asks for a model of that architecture, trained or not.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fwshapley.fitting import Fitted, MakeNetwork, make_network
from fwshapley.games.masking import MaskedModel
from fwshapley.networks.basis import HatBasis
from fwshapley.objective import Kernel, Multilinear, Objective
from fwshapley.players import Players
from fwshapley.storage import load_bundle, save_bundle
from fwshapley.surrogate import Surrogate, TableSurrogate
from fwshapley.weights import Semivalue

FILE = "explainer.safetensors"
KIND = "explainer"


def save_fitted(folder: Path, fitted: Fitted, players: Players, facts: Mapping[str, Any]) -> None:
    """Write what a fit left behind, with facts about it."""
    surrogate = fitted.masked.surrogate
    tensors = {"players": players.assignment, "base": fitted.base}
    tensors |= {f"surrogate.{name}": tensor for name, tensor in surrogate.state_dict().items()}
    tensors |= {f"network.{name}": tensor for name, tensor in fitted.network.state_dict().items()}
    inside = {
        "players": players.facts(),
        "objective": _objective_facts(fitted.objective),
        "surrogate": _surrogate_facts(surrogate),
        "output": fitted.masked.output,
    }
    save_bundle(folder / FILE, KIND, {**facts, **inside}, tensors)


def load_fitted(
    folder: Path, model: nn.Module | None, network: MakeNetwork | None, device: torch.device
) -> tuple[Fitted, Players, dict[str, Any]]:
    """Read what `save_fitted` wrote: what a fit left behind, its players, and the facts about it."""
    path = folder / FILE
    facts, tensors = load_bundle(path, KIND)
    players = Players.from_facts(facts["players"], tensors["players"]).to(device)
    parts = {
        part: {name.partition(".")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}
        for part in ("surrogate", "network")
    }
    objective = _make_objective(facts["objective"])
    surrogate = _make_surrogate(facts["surrogate"], parts["surrogate"], players, model, path)
    _fill(surrogate, parts["surrogate"], "model", path)
    surrogate.to(device).eval().requires_grad_(requires_grad=False)
    channels = objective.maps * len(tensors["base"])
    kind = facts["network"]
    if kind == "own" and network is None:
        raise ValueError(f"{path} was saved with a network of your own: pass network=..., the function that makes it")
    example = torch.zeros(facts["example"], device=device)
    made = make_network(network or kind, surrogate, players, example, channels, seed=0)
    _fill(made, parts["network"], "network", path)
    masked = MaskedModel(surrogate, facts["output"], players.n_players, device)
    return (
        Fitted(masked, made.eval().requires_grad_(requires_grad=False), objective, tensors["base"].to(device)),
        players,
        facts,
    )


def _objective_facts(objective: Objective) -> dict[str, Any]:
    if isinstance(objective, Kernel):
        facts = {name: getattr(objective, name) for name in ("kernel", "constraint", "unit", "level")}
        return {"name": "kernel", "weights": objective.weights.to_json(), **facts}
    assert isinstance(objective, Multilinear)  # noqa: S101 - there are two
    return {"name": "multilinear", **asdict(objective)}


def _make_objective(facts: dict[str, Any]) -> Objective:
    name = facts.pop("name")
    if name == "kernel":
        return Kernel(**facts | {"weights": Semivalue.from_json(facts["weights"])})
    return Multilinear(
        HatBasis(**facts["basis"]),
        evenness=facts["evenness"],
        level=tuple(facts["level"]),
        unit=tuple(facts["unit"]),
    )


def _surrogate_facts(surrogate: nn.Module) -> dict[str, Any]:
    if isinstance(surrogate, Surrogate):
        model = type(surrogate.network).__name__
        return {"model": model, "tell_mask": surrogate.tell_mask, "classes": surrogate.classes}
    return {"model": None}


def _make_surrogate(
    facts: dict[str, Any], tensors: Mapping[str, Tensor], players: Players, model: nn.Module | None, path: Path
) -> nn.Module:
    if facts["model"] is None:
        columns = len(tensors["standardise.mean"])
        return TableSurrogate(torch.zeros(2, columns), players, len(tensors["network.last.bias"]))
    if model is None:
        raise ValueError(
            f"{path} holds the tensors of a {facts['model']}, not its code: pass model=..., one of that architecture, "
            "trained or not"
        )
    network = copy.deepcopy(model)
    return Surrogate(network, players, tensors["fill"].clone(), tell_mask=facts["tell_mask"], classes=facts["classes"])


def _fill(module: nn.Module, tensors: Mapping[str, Tensor], argument: str, path: Path) -> None:
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit the {argument} given: {error}") from error
