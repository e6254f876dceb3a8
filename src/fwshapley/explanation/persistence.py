"""Explainers on disk: a folder with one safetensors file of tensors and facts, and no code.

It comes back with the arguments that it was given, so that it can be fitted again.

A copy of the user's model is part of every explainer of images. Its tensors are saved; its architecture is Python and
is not, so `load` asks for a model of that architecture, trained or not.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn

from fwshapley._internal.bundle import load_bundle, save_bundle
from fwshapley._internal.tensors import as_tensor
from fwshapley.explanation.black_box import BlackBox, find_function
from fwshapley.explanation.fitting import Fitted, MakeNetwork, dtype_of, kinds_of, make_network, needs_training, place
from fwshapley.explanation.surrogate import Surrogate, TableSurrogate
from fwshapley.games.masked_model import KINDS, MaskedModel
from fwshapley.networks.cnn import SmallCNN
from fwshapley.objectives import objective_from_facts
from fwshapley.players import Players
from fwshapley.tables.network_encoding import TableSchema

FILE = "explainer.safetensors"
OWN, READY, TABLE, TENSOR = "own", "ready", "table", "tensor"
"""Kinds of arguments that are no JSON: a network or function of the user's, a `Surrogate`, and what hides features."""
KIND = "explainer"


class Loaded(NamedTuple):
    """What was read from a folder.

    Attributes:
        fitted: what a fit left behind.
        arguments: of the explainer that was fitted, all but the model and the device.
        facts: about both.
    """

    fitted: Fitted
    arguments: dict[str, Any]
    facts: dict[str, Any]


def save_fitted(folder: Path, fitted: Fitted, arguments: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Write what a fit left behind, with the arguments of the explainer and facts about it."""
    modules = {"surrogate": fitted.masked_model.surrogate, "network": fitted.network, "model": fitted.model}
    tensors = {"players": fitted.players.assignment, "base": fitted.base_values} | _removal_tensor(arguments, fitted.encoding)
    for part, module in modules.items():
        if module is not None:
            tensors |= {f"{part}.{name}": tensor for name, tensor in module.state_dict().items()}
    inside = {
        "arguments": _argument_facts(arguments),
        "players": fitted.players.facts(),
        "objective": fitted.objective.facts(),
        "surrogate": _surrogate_facts(fitted.masked_model.surrogate),
        "output": fitted.masked_model.output,
        "output_names": fitted.output_names,
        "has_model": fitted.model is not None,
        "black_box": isinstance(fitted.model, BlackBox),
        "form": None if fitted.encoding is None else fitted.encoding.facts(),
    }
    save_bundle(folder / FILE, KIND, {**facts, **inside}, tensors)


def load_fitted(
    folder: Path,
    *,
    model: Any,  # noqa: ANN401 - as `FeatureExplainer` takes it
    surrogate: nn.Module | None,
    network: MakeNetwork | None,
    device: torch.device,
) -> Loaded:
    """Read what `save_fitted` wrote."""
    path = folder / FILE
    facts, tensors = load_bundle(path, KIND)
    players = Players.from_facts(facts["players"], tensors["players"])
    parts = {
        part: {name.partition(".")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}
        for part in ("surrogate", "network", "model")
    }
    objective = objective_from_facts(facts["objective"])
    form = None if facts["form"] is None else TableSchema.from_facts(facts["form"])
    explained = _restore_model(model, facts, parts["model"], form, path)
    inside = surrogate or (explained if isinstance(explained, BlackBox) else model)
    made = _make_surrogate(facts["surrogate"], parts["surrogate"], players, model=inside, form=form, path=path)
    filled = _fill(made, parts["surrogate"], path)
    place(filled, device, players)
    masked = MaskedModel(filled, facts["output"], players.n_players, device)
    kind = facts["arguments"]["network"] if network is None else network
    if kind == OWN:
        raise ValueError(f"{path} was saved with a network of your own: pass network=..., the function that makes it")
    example = torch.zeros(facts["example"], dtype=dtype_of(form), device=device)
    channels = objective.maps * len(tensors["base"])
    made = make_network(kind, masked.surrogate, players, example, channels, seed=0, form=form)
    fitted = Fitted(
        players,
        masked,
        _fill(made, parts["network"], path),
        objective,
        tensors["base"].to(device),
        tuple(facts["output_names"]),
        None if explained is None else explained.to(device),
        form,
    )
    arguments = _restore_arguments(fitted, facts["arguments"], tensors.get("removal"), surrogate) | {"network": kind}
    return Loaded(fitted, arguments, facts)


def _argument_facts(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an explainer as JSON holds them, modules and functions by their kind."""
    surrogate, removal = arguments["surrogate"], arguments["removal"]
    if isinstance(surrogate, nn.Module):
        surrogate = OWN if needs_training(surrogate) else READY
    if not isinstance(removal, str):
        removal = TABLE if isinstance(removal, pd.DataFrame) else TENSOR
    return {
        "players": arguments["players"] is not None,
        "surrogate": surrogate,
        "objective": arguments["objective"].facts(),
        "output": arguments["output"],
        "network": OWN if callable(arguments["network"]) else arguments["network"],
        "removal": removal,
        "output_names": arguments["output_names"],
        "seed": arguments["seed"],
    }


def _removal_tensor(arguments: Mapping[str, Any], form: TableSchema | None) -> dict[str, Tensor]:
    """Return what hidden features become, where that is no rule; a table is encoded."""
    removal = arguments["removal"]
    if isinstance(removal, str):
        return {}
    return {"removal": as_tensor(removal) if form is None else form.encode(removal)}


def _restore_arguments(
    fitted: Fitted, facts: Mapping[str, Any], removal: Tensor | None, surrogate: nn.Module | None
) -> dict[str, Any]:
    """Return the arguments of an explainer, but for its network, that `_argument_facts` are of."""
    made, kind = fitted.masked_model.surrogate, facts["surrogate"]
    if kind == READY:
        given: nn.Module | str | None = made
    elif kind == OWN:
        given = surrogate or made.get_submodule("network")
    else:
        given = kind
    filled: Any = facts["removal"] if removal is None else removal
    if facts["removal"] == TABLE and removal is not None and fitted.encoding is not None:
        filled = fitted.encoding.decode(removal)
    return {
        "players": fitted.players if facts["players"] else None,
        "surrogate": given,
        "objective": objective_from_facts(facts["objective"]),
        "output": facts["output"],
        "removal": filled,
        "output_names": None if facts["output_names"] is None else tuple(facts["output_names"]),
        "seed": facts["seed"],
    }


def _restore_model(
    model: Any,  # noqa: ANN401 - as `FeatureExplainer` takes it
    facts: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    form: TableSchema | None,
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
    form: TableSchema | None,
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
