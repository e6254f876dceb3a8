"""Explainers on disk: a folder with one safetensors file of tensors and facts, and no code.

A copy of the user's model is part of every explainer of images. Its tensors are saved; its architecture is Python and
is not, so `load` asks for a model of that architecture, trained or not.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fwshapley.fitting import Fitted, MakeNetwork, make_network
from fwshapley.games.masking import MaskedModel
from fwshapley.objective import objective_from_facts
from fwshapley.players import Players
from fwshapley.storage import load_bundle, save_bundle
from fwshapley.surrogate import Surrogate, TableSurrogate

FILE = "explainer.safetensors"
KIND = "explainer"


def save_fitted(folder: Path, fitted: Fitted, players: Players, facts: Mapping[str, Any]) -> None:
    """Write what a fit left behind, with facts about it."""
    modules = {"surrogate": fitted.masked.surrogate, "network": fitted.network, "model": fitted.model}
    tensors = {"players": players.assignment, "base": fitted.base}
    for part, module in modules.items():
        if module is not None:
            tensors |= {f"{part}.{name}": tensor for name, tensor in module.state_dict().items()}
    inside = {
        "players": players.facts(),
        "objective": fitted.objective.facts(),
        "surrogate": _surrogate_facts(fitted.masked.surrogate),
        "output": fitted.masked.output,
        "has_model": fitted.model is not None,
    }
    save_bundle(folder / FILE, KIND, {**facts, **inside}, tensors)


def load_fitted(
    folder: Path,
    *,
    model: nn.Module | None,
    surrogate: nn.Module | None,
    network: MakeNetwork | None,
    device: torch.device,
) -> tuple[Fitted, Players, dict[str, Any]]:
    """Read what `save_fitted` wrote: what a fit left behind, its players, and the facts about it."""
    path = folder / FILE
    facts, tensors = load_bundle(path, KIND)
    players = Players.from_facts(facts["players"], tensors["players"]).to(device)
    parts = {
        part: {name.partition(".")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}
        for part in ("surrogate", "network", "model")
    }
    objective = objective_from_facts(facts["objective"])
    inside = model if surrogate is None else surrogate
    made = _make_surrogate(facts["surrogate"], parts["surrogate"], players, inside, path)
    masked = MaskedModel(_fill(made, parts["surrogate"], path).to(device), facts["output"], players.n_players, device)
    if facts["network"] == "own" and network is None:
        raise ValueError(f"{path} was saved with a network of your own: pass network=..., the function that makes it")
    example, channels = torch.zeros(facts["example"], device=device), objective.maps * len(tensors["base"])
    explaining = make_network(network or facts["network"], masked.surrogate, players, example, channels, seed=0)
    explained = None
    if model is not None and facts["has_model"]:
        explained = _fill(copy.deepcopy(model), parts["model"], path).to(device)
    base = tensors["base"].to(device)
    return Fitted(masked, _fill(explaining, parts["network"], path), objective, base, explained), players, facts


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
            f"{path} holds the tensors of a {facts['model']}, not its code: pass model=... (or surrogate=..., if it "
            "was one of your own), a module of that architecture, trained or not"
        )
    network = copy.deepcopy(model)
    return Surrogate(network, players, tensors["fill"].clone(), tell_mask=facts["tell_mask"], classes=facts["classes"])


def _fill(module: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> nn.Module:
    """Give a module the tensors that were saved, and leave it ready for use."""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit the {type(module).__name__} given: {error}") from error
    return module.eval().requires_grad_(requires_grad=False)
