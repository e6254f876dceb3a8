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

from fwshapley.blackbox import BlackBox, find_function
from fwshapley.fitting import Fitted, MakeNetwork, dtype_of, kinds_of, make_network, place
from fwshapley.forms import Form
from fwshapley.games.masking import KINDS, MaskedModel
from fwshapley.networks.cnn import SmallCNN
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
        "output_names": fitted.output_names,
        "has_model": fitted.model is not None,
        "black_box": isinstance(fitted.model, BlackBox),
        "form": None if fitted.form is None else fitted.form.facts(),
    }
    save_bundle(folder / FILE, KIND, {**facts, **inside}, tensors)


def load_fitted(
    folder: Path,
    *,
    model: Any,  # noqa: ANN401 - as `FeatureExplainer` takes it
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
    form = None if facts["form"] is None else Form.from_facts(facts["form"])
    explained = _restore_model(model, facts, parts["model"], form, path)
    inside = surrogate or (explained if isinstance(explained, BlackBox) else model)
    made = _make_surrogate(facts["surrogate"], parts["surrogate"], players, model=inside, form=form, path=path)
    filled = _fill(made, parts["surrogate"], path)
    place(filled, device, players)
    masked = MaskedModel(filled, facts["output"], players.n_players, device)
    if facts["network"] == "own" and network is None:
        raise ValueError(f"{path} was saved with a network of your own: pass network=..., the function that makes it")
    example = torch.zeros(facts["example"], dtype=dtype_of(form), device=device)
    channels = objective.maps * len(tensors["base"])
    made = make_network(network or facts["network"], masked.surrogate, players, example, channels, seed=0, form=form)
    fitted = Fitted(
        masked,
        _fill(made, parts["network"], path),
        objective,
        tensors["base"].to(device),
        tuple(facts["output_names"]),
        None if explained is None else explained.to(device),
        form,
    )
    return fitted, players, facts


def _restore_model(
    model: Any,  # noqa: ANN401 - as `FeatureExplainer` takes it
    facts: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    form: Form | None,
    path: Path,
) -> nn.Module | None:
    """Return the model that was explained, if it is given: a module with the tensors saved, a function as it is."""
    if model is None or not facts["has_model"]:
        return None
    if facts["black_box"] == isinstance(model, nn.Module):
        saved, given = "a function", "a torch module"
        saved, given = (saved, given) if facts["black_box"] else (given, saved)
        raise TypeError(f"the model that {path} explains was {saved}, the one given is {given}")
    if facts["black_box"]:
        return BlackBox(find_function(model).ask, KINDS[facts["output"]], form)
    return _fill(copy.deepcopy(model), tensors, path)


def _surrogate_facts(surrogate: nn.Module) -> dict[str, Any]:
    if not isinstance(surrogate, Surrogate):
        return {"model": None}
    network = surrogate.network
    fresh = (network.channels, network.outputs, network.side) if isinstance(network, SmallCNN) else None
    how = {"tell_mask": surrogate.tell_mask, "kind": surrogate.kind}
    return {"model": type(network).__name__, "fresh": fresh, **how}


def _make_surrogate(
    facts: dict[str, Any],
    tensors: Mapping[str, Tensor],
    players: Players,
    *,
    model: Any,  # noqa: ANN401 - as `FeatureExplainer` takes it
    form: Form | None,
    path: Path,
) -> nn.Module:
    if facts["model"] is None:
        rows = torch.zeros(2, *players.assignment.shape, dtype=dtype_of(form))
        return TableSurrogate(rows, players, len(tensors["network.last.bias"]), kinds=kinds_of(form))
    how = {"tell_mask": facts["tell_mask"], "kind": facts["kind"]}
    if facts["fresh"] is not None:
        return Surrogate(SmallCNN(*facts["fresh"]), players, tensors["fill"].clone(), **how)
    if facts["model"] == BlackBox.__name__ and model is None:
        raise ValueError(f"what {path} explains asks the function itself: pass model=..., the function or estimator")
    if not isinstance(model, nn.Module):
        raise ValueError(  # noqa: TRY004 - mostly there is none
            f"{path} holds the tensors of a {facts['model']}, not its code: pass model=... (or surrogate=..., if it "
            "was one of your own), a module of that architecture, trained or not"
        )
    return Surrogate(copy.deepcopy(model), players, tensors["fill"].clone(), **how)


def _fill(module: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> nn.Module:
    """Give a module the tensors that were saved, and leave it ready for use."""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit the {type(module).__name__} given: {error}") from error
    return module.eval().requires_grad_(requires_grad=False)
