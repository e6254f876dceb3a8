"""Explainers in files: one safetensors file of tensors and facts, and no code.

A file also has the arguments of the constructor, so a loaded explainer can be fitted again. An explainer of images by a
module contains a copy of the module: its tensors are saved, but its architecture is Python code, so `load` asks for a
module of that architecture, trained or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn

from fwshapley._internal.checks import check_callable
from fwshapley._internal.safetensors_file import load_bundle, save_bundle
from fwshapley._internal.tensor_checks import as_tensor, choose_device
from fwshapley.explanation.inputs.input_reading import Transform
from fwshapley.explanation.inputs.model_functions import find_function
from fwshapley.explanation.inputs.select_output import SelectOutput, copy_in_single, select_output
from fwshapley.explanation.learned.black_box import BlackBox, InputForm
from fwshapley.explanation.learned.error_model import ErrorModel
from fwshapley.explanation.learned.fidelity import Fidelity
from fwshapley.explanation.learned.fitted import Fitted
from fwshapley.explanation.learned.fitting import MakeNetwork, game_of, make_network
from fwshapley.explanation.learned.masked_transformer import MaskedTransformer
from fwshapley.explanation.learned.quality import Quality
from fwshapley.explanation.learned.surrogate import Surrogate, TableSurrogate, is_trained_by_fit, move
from fwshapley.explanation.learned.transformer_models import split_pipeline
from fwshapley.games.scales import KINDS
from fwshapley.networks.cnn import SmallCNN
from fwshapley.networks.mlp import ColumnKinds
from fwshapley.objectives import objective_from_facts
from fwshapley.players import Players
from fwshapley.semivalues import Semivalue
from fwshapley.tables.network_encoding import TableSchema
from fwshapley.text_players import players_from_facts
from fwshapley.training.budget import History

if TYPE_CHECKING:
    from fwshapley.explanation.learned.feature_explainer import FeatureExplainer

FILE = "explainer.safetensors"
KIND = "explainer"
CUSTOM, READY, TABLE, ARRAY = "custom", "ready", "table", "array"
"""Arguments that JSON cannot hold: a user's network or function, a `Surrogate`, and two kinds of removal."""


class MissingModel(nn.Module):
    """Takes the place of the model of an explainer that was loaded without it."""


class SavedParts(NamedTuple):
    """What a file contains: a fit, arguments of the constructor except model and device, and what goes with the fit."""

    fitted: Fitted
    arguments: dict[str, Any]
    error_model: ErrorModel | None
    metadata: dict[str, Any] | None


def save_explainer(explainer: FeatureExplainer, folder: Path) -> None:
    """Write a fitted explainer to a folder."""
    if folder.is_file():
        raise NotADirectoryError(f"folder must be a folder, got the file {folder}")
    fitted = explainer.fitted_
    surrogate = fitted.masked_model.surrogate
    error_model = explainer.error_model_
    tensors = {"players": torch.from_numpy(fitted.players.assignment), "base_values": fitted.base_values}
    if not isinstance(explainer.removal, str):
        removal, schema = explainer.removal, fitted.schema
        tensors["removal"] = as_tensor(removal) if schema is None else schema.encode(removal)
    for part, module in {"surrogate": surrogate, "network": fitted.network, "model": fitted.model}.items():
        if module is not None:
            tensors |= {f"{part}.{name}": tensor for name, tensor in module.state_dict().items()}
    facts = {
        "arguments": _argument_facts(explainer),
        "players": fitted.players.facts(),
        "objective": fitted.objective.facts(),
        "surrogate": _surrogate_facts(surrogate),
        "output": fitted.masked_model.output,
        "output_names": fitted.output_names,
        "has_model": fitted.model is not None,
        "is_black_box": isinstance(fitted.model, BlackBox),
        "input_form": fitted.model.form if isinstance(fitted.model, BlackBox) else None,
        "entry": fitted.model.entry if isinstance(fitted.model, SelectOutput) else None,
        "schema": None if fitted.schema is None else fitted.schema.facts(),
        "input_shape": fitted.input_shape,
        "seed": fitted.seed,
        "histories": {name: asdict(history) for name, history in fitted.histories.items()},
        "fidelity": None if fitted.fidelity is None else asdict(fitted.fidelity),
        "quality": None if fitted.quality is None else fitted.quality.facts(),
        "error_model": None if error_model is None else error_model.facts(),
        "metadata": explainer.metadata,
    }
    save_bundle(folder / FILE, KIND, facts, tensors)


def load_parts(
    path: Path,
    *,
    model: Any,  # noqa: ANN401 - any model
    surrogate: nn.Module | None,
    network: MakeNetwork | None,
    transform: Transform | None,
    device: str | torch.device,
) -> SavedParts:
    """Read what `save_explainer` wrote, from the folder or the file in it; arguments as in `FeatureExplainer.load`."""
    where = choose_device(device)
    if network is not None:
        check_callable("network", network)
    if transform is not None:
        check_callable("transform", transform)
    file = path if path.is_file() else path / FILE
    facts, tensors = load_bundle(file, KIND)
    fitted = _restore_fitted(facts, tensors, file, model=model, surrogate=surrogate, network=network, device=where)
    arguments = _restore_arguments(fitted, facts["arguments"], tensors.get("removal"), surrogate)
    arguments["transform"] = transform
    return SavedParts(
        replace(fitted, transform=transform),
        arguments if network is None else arguments | {"network": network},
        None if facts["error_model"] is None else ErrorModel.from_facts(facts["error_model"]),
        facts["metadata"],
    )


def _restore_fitted(
    facts: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    file: Path,
    *,
    model: Any,  # noqa: ANN401 - any model
    surrogate: nn.Module | None,
    network: MakeNetwork | None,
    device: torch.device,
) -> Fitted:
    parts: dict[str, dict[str, Tensor]] = {"surrogate": {}, "network": {}, "model": {}}
    for name, tensor in tensors.items():
        part, separator, rest = name.partition(".")
        if separator:
            parts[part][rest] = tensor
    players = players_from_facts(facts["players"], tensors["players"])
    model = split_pipeline(model, players)[0]
    objective = objective_from_facts(facts["objective"])
    schema = None if facts["schema"] is None else TableSchema.from_facts(facts["schema"])
    restored = _restore_model(model, facts, parts["model"], schema, file)
    inner = surrogate or (restored if isinstance(restored, BlackBox) else model)
    restored_surrogate = _restore_surrogate(
        facts["surrogate"], parts["surrogate"], players, model=inner, schema=schema, file=file
    )
    move(restored_surrogate, device, players)
    kind = network or facts["arguments"]["network"]
    if kind == CUSTOM:
        raise ValueError(f"{file} was saved with a network of your own; pass the function that makes it as network=...")
    dtype = torch.float32 if schema is None else schema.dtype
    example = torch.zeros((2, *facts["input_shape"]), dtype=dtype, device=device)
    channels = objective.maps * len(tensors["base_values"])
    made = make_network(kind, restored_surrogate, players, example, channels, seed=0, schema=schema)
    return Fitted(
        players=players,
        masked_model=game_of(players, restored_surrogate, facts["output"], device),
        network=_load_tensors(made, parts["network"], file, "network"),
        objective=objective,
        base_values=tensors["base_values"].to(device),
        output_names=tuple(facts["output_names"]),
        model=None if restored is None else restored.to(device),
        schema=schema,
        input_shape=tuple(facts["input_shape"]),
        seed=facts["seed"],
        histories={name: History.from_facts(history) for name, history in facts["histories"].items()},
        fidelity=None if facts["fidelity"] is None else Fidelity.from_facts(facts["fidelity"]),
        quality=None if facts["quality"] is None else Quality.from_facts(facts["quality"]),
    )


def _restore_model(
    model: Any,  # noqa: ANN401 - any model
    facts: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    schema: TableSchema | None,
    file: Path,
) -> nn.Module | None:
    """Return the model that was explained, if it was passed: a module with the saved tensors, or a function.

    A model of transformers need not be passed, since its configuration was saved.
    """
    transformer = _restore_transformer(facts["surrogate"], model) if facts["has_model"] else None
    if transformer is not None:
        return _load_tensors(transformer, tensors, file, "model")
    if model is None or not facts["has_model"]:
        return None
    if facts["is_black_box"] == isinstance(model, nn.Module):
        saved, passed = ("a function", "a torch module") if facts["is_black_box"] else ("a torch module", "a function")
        raise TypeError(f"model must be {saved}, as the one that {file} explains, got {passed}")
    if facts["is_black_box"]:
        return BlackBox(find_function(model).call, KINDS[facts["output"]], schema, InputForm(*facts["input_form"]))
    return _load_tensors(select_output(copy_in_single(model), facts["entry"]), tensors, file, "model")


def _restore_transformer(facts: Mapping[str, Any], model: Any) -> MaskedTransformer | None:  # noqa: ANN401 - any model
    """Return a transformer that was saved, with any weights; None if it is none, or its code is not known."""
    if facts["class"] != MaskedTransformer.__name__:
        return None
    return MaskedTransformer.from_facts(facts, model if isinstance(model, nn.Module) else None)


def _surrogate_facts(surrogate: nn.Module) -> dict[str, Any]:
    if isinstance(surrogate, MaskedTransformer):
        return surrogate.facts()
    if not isinstance(surrogate, Surrogate):
        return {"class": "TableSurrogate"}
    network = surrogate.network
    shape = (network.channels, network.outputs, network.side) if isinstance(network, SmallCNN) else None
    selects = isinstance(network, SelectOutput)
    return {
        "class": "Surrogate",
        "network": type(network.model if selects else network).__name__,
        "entry": network.entry if selects else None,
        "shape": shape,
        "tell_mask": surrogate.tell_mask,
        "kind": surrogate.kind,
    }


def _restore_surrogate(
    facts: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    players: Players,
    *,
    model: Any,  # noqa: ANN401 - any model
    schema: TableSchema | None,
    file: Path,
) -> nn.Module:
    if facts["class"] == "TableSurrogate":
        dtype, kinds = (torch.float32, ColumnKinds()) if schema is None else (schema.dtype, schema.kinds)
        rows = torch.zeros(2, *players.assignment.shape, dtype=dtype)
        n_outputs = len(tensors["networks.0.last.bias"])
        table = TableSurrogate(rows, players, n_outputs, column_kinds=kinds)
        return _load_tensors(table, tensors, file, "surrogate")
    transformer = _restore_transformer(facts, model)
    if transformer is not None:
        return _load_tensors(transformer, tensors, file, "model or surrogate")
    if facts.get("shape") is not None:
        network: nn.Module = SmallCNN(*facts["shape"])
    elif isinstance(model, BlackBox):
        network = model
    elif isinstance(model, nn.Module):
        network = select_output(copy_in_single(model), facts["entry"])
    elif facts["network"] == BlackBox.__name__:
        raise ValueError(f"{file} explains a function by calling it; pass the function or estimator as model=...")
    else:
        raise ValueError(
            f"{file} has the tensors of a {facts['network']} but not its code; pass a module of that architecture, "
            "trained or not, as model=... (or as surrogate=..., if you passed one to the explainer)"
        )
    fill = tensors["fill"].clone()
    made = Surrogate(network, players, fill, tell_mask=facts["tell_mask"], kind=facts["kind"])
    return _load_tensors(made, tensors, file, "model or surrogate")


def _load_tensors(module: nn.Module, tensors: Mapping[str, Tensor], file: Path, name: str) -> nn.Module:
    """Load saved tensors into a module, and leave it ready for use."""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        kind, reason = type(module).__name__, str(error).partition("\n")[2].strip().partition("\n")[0]
        raise ValueError(
            f"{name} must have the architecture that {file} was saved with, got a {kind}: {reason}"
        ) from error
    return module.eval().requires_grad_(requires_grad=False)


def _argument_facts(explainer: FeatureExplainer) -> dict[str, Any]:
    """Return the arguments of the constructor, JSON-compatible, modules and functions by their kind."""
    surrogate: object = explainer.surrogate
    removal, objective = explainer.removal, explainer.objective
    if isinstance(surrogate, nn.Module):
        surrogate = CUSTOM if is_trained_by_fit(surrogate) else READY
    if not isinstance(removal, str):
        removal = TABLE if isinstance(removal, pd.DataFrame) else ARRAY
    return {
        "players": explainer.players is not None,
        "surrogate": surrogate,
        "objective": objective if isinstance(objective, str) else objective.facts(),
        "weights": None if explainer.weights is None else explainer.weights.to_json(),
        "output": explainer.output,
        "network": CUSTOM if callable(explainer.network) else explainer.network,
        "removal": removal,
        "output_names": None if explainer.output_names is None else list(map(str, explainer.output_names)),
        "seed": int(explainer.seed),
    }


def _restore_arguments(
    fitted: Fitted, facts: Mapping[str, Any], removal: Tensor | None, surrogate: nn.Module | None
) -> dict[str, Any]:
    """Return the arguments that `_argument_facts` describes."""
    restored = dict(facts)
    restored["players"] = fitted.players if facts["players"] else None
    made = fitted.masked_model.surrogate
    if facts["surrogate"] == READY:
        restored["surrogate"] = made
    elif facts["surrogate"] == CUSTOM:
        restored["surrogate"] = surrogate or made.get_submodule("network")
    if not isinstance(facts["objective"], str):
        restored["objective"] = objective_from_facts(facts["objective"])
    if facts["weights"] is not None:
        restored["weights"] = Semivalue.from_json(facts["weights"])
    if removal is not None:
        is_table = facts["removal"] == TABLE and fitted.schema is not None
        restored["removal"] = fitted.schema.decode(removal) if is_table and fitted.schema else removal
    return restored
