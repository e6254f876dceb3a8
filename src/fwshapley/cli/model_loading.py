"""Models by their names on the command line: an attribute of a Python module, or a file of torch.export."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fwshapley._internal.checks import find_closest
from fwshapley._internal.wording import listed
from fwshapley.cli.user_errors import describe, remember_folder, remember_model, remember_module
from fwshapley.explanation.inputs.image_layout import Layout, from_channels_first
from fwshapley.explanation.inputs.model_functions import Function, find_function, sum_to_one
from fwshapley.explanation.inputs.predictions import PREDICTIONS, as_columns
from fwshapley.explanation.inputs.returned_entries import Entry, find_entry, take_entry
from fwshapley.games.scales import KINDS, Kind, Output

EXPORTED = ".pt2"
CALL = "()"
PICKLED = {".pt", ".pth", ".pkl", ".pickle", ".joblib", ".sav", ".bin", ".ckpt"}
FOREIGN = {".onnx", ".h5", ".keras", ".tflite", ".safetensors", ".pb"}
OutputChoice = Literal["auto", Output]

MAX_NAMES = 12

TREE_FILES = {".json", ".txt", ".ubj", ".cbm", ".model", ".lgb"}
"""Endings of files of XGBoost, LightGBM and CatBoost; binary ones are refused with what to save instead."""

KINDS_OF_MODEL = (
    "'package.module:attribute', 'file.py:attribute', a .pt2 file saved by torch.export.save, or a model that XGBoost "
    "or CatBoost saved as .json or LightGBM as .txt"
)
HOW_TO_EXPORT = (
    'torch.export.export(model.eval(), (x,), dynamic_shapes=({0: torch.export.Dim("batch")},)), where x is a batch of '
    "two inputs or more"
)


def find_model(name: str, output: OutputChoice) -> Any:  # noqa: ANN401 - a torch module, a function or an estimator
    """Return the model of a name: a torch module, a function, an estimator, or the trees of a file.

    Python is run to get it: the module is imported, with the current folder (or the file's) first on the path. The
    attribute is the model itself; with () behind it, it is called without arguments and returns the model.

    Args:
        name: package.module:attribute, file.py:attribute, either with () behind it, a .pt2 file, or a file of a
            boosting library.
        output: how outputs of a .pt2 file are read: logits of classes ("auto" too) or labels, or values.
    """
    path = Path(name)
    if path.suffix.lower() == EXPORTED:
        return ExportedModel(path, "classes" if output == "auto" else KINDS[output])
    if path.suffix.lower() in PICKLED:
        raise ValueError(
            f"{name} may be a pickle, which can run any code: load it in a Python file of yours, such as model.py "
            f"with a line 'model = ...', and give model.py:model. A model must be {KINDS_OF_MODEL}"
        )
    if path.suffix.lower() in FOREIGN:
        raise ValueError(
            f"{name} cannot be read: write a function that returns its outputs, such as 'predict' in model.py, and "
            f"give model.py:predict. A model must be {KINDS_OF_MODEL}"
        )
    if path.suffix.lower() in TREE_FILES:
        from fwshapley.trees.model_reader import read_model  # noqa: PLC0415 - it needs numba

        return read_model(path)
    where, colon, attribute = name.rpartition(":")
    if not colon or not where or not attribute:
        raise ValueError(f"a model must be {KINDS_OF_MODEL}; got {name!r}")
    called = attribute.endswith(CALL)
    module = _import(where)
    remember_module(module)
    value = _attribute_of(module, attribute.removesuffix(CALL), where)
    model = _call(value, name) if called else value
    _check_model(model, name)
    remember_model(model)
    return model


def _import(where: str) -> ModuleType:
    """Import a module by name or from a file, with its folder first on the path."""
    is_file = where.endswith(".py") or os.sep in where
    path = Path(where)
    if is_file and not path.is_file():
        raise FileNotFoundError(f"there is no file {where}")
    folder = str(path.parent.resolve()) if is_file else str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    remember_folder(Path(folder))
    try:
        return _import_file(path) if is_file else importlib.import_module(where)
    except KeyboardInterrupt:
        raise
    except SystemExit as error:
        raise ValueError(
            f"importing {where} ended Python ({describe(error)}): put the code of a script below if __name__ == "
            "'__main__'"
        ) from error
    except BaseException as error:  # whatever the user's code may raise
        if isinstance(error, ModuleNotFoundError) and error.name and where.startswith(error.name) and not is_file:
            raise ModuleNotFoundError(
                f"there is no module {error.name} in {folder} or among the packages installed"
            ) from error
        raise ValueError(f"{where} could not be imported: {describe(error)}") from error


def _import_file(path: Path) -> ModuleType:
    name = path.stem if path.stem not in sys.modules else f"{path.stem} of {path.resolve()}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # or its dataclasses and pickles would not find it
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _attribute_of(module: ModuleType, attribute: str, where: str) -> Any:  # noqa: ANN401 - anything
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            names = [name for name in vars(module) if not name.startswith("_")]
            meant = find_closest(attribute, names)
            hint = f" (did you mean {meant!r}?)" if meant else ""
            raise ValueError(f"{where} has no {attribute!r}{hint}; it has {listed(names, MAX_NAMES)}")
        value = getattr(value, part)
    return value


def _call(function: Any, name: str) -> Any:  # noqa: ANN401 - anything
    try:
        return function()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the user's code may raise
        raise ValueError(f"{name} failed: {describe(error)}") from error


def _check_model(value: Any, name: str) -> None:  # noqa: ANN401 - anything
    if isinstance(value, type):
        raise TypeError(f"{name} is a class, not a model: to call it, write '{name}()'")
    if isinstance(value, FunctionType) and not inspect.signature(value).parameters:
        raise TypeError(f"{name} is a function without arguments: if it returns the model, write '{name}()'")
    if not (isinstance(value, nn.Module) or callable(value) or hasattr(value, "predict")):
        raise TypeError(
            f"{name} must be a torch module, a function, or an estimator with predict_proba or predict; it is a "
            f"{type(value).__name__}"
        )


def as_in_file(model: Any, layout: Layout | None) -> Any:  # noqa: ANN401 - a module, a function or an estimator
    """Return a model that gets images with their axes as in the file that they come from.

    A torch module and a program of torch.export get channels first.
    """
    if layout in (None, "NCHW") or isinstance(model, nn.Module | ExportedModel):
        return model
    function = find_function(model)

    def ask(images: NDArray[Any]) -> Any:  # noqa: ANN401 - whatever the model returns
        return function.call(from_channels_first(images, layout))

    return ReorderedClassifier(ask, getattr(model, "classes_", None)) if function.probabilities else ask


class ReorderedClassifier:
    """A classifier that gets images with their axes in another order.

    Args:
        ask: its predict_proba, of images in that order.
        classes: its classes.
    """

    def __init__(self, ask: Function, classes: Any) -> None:  # noqa: ANN401 - as scikit-learn has it
        self.predict_proba, self.classes_ = ask, classes


class ExportedModel:
    """A program of torch.export as a function on arrays: probabilities of classes or labels, or values.

    Args:
        path: of the file. Reading it can run code, so it must come from someone you trust.
        kind: of its outputs, which may be an entry of a dict or a tuple as for modules: logits of "classes" or
            "labels", or "values". If outputs of classes sum to 1 in the first batch, they count as probabilities.
    """

    def __init__(self, path: Path, kind: Kind) -> None:
        program = _load_program(path)
        self.most_rows = _most_rows(program, path)
        self.entry = _find_output(program, path, kind, min(2, self.most_rows))
        self.kind = kind
        self.ask = program.module()
        self.probabilities: bool | None = None  # decided by the first batch
        tensors = [*program.state_dict.values(), *program.constants.values()]
        self.device = next((tensor.device for tensor in tensors if isinstance(tensor, Tensor)), torch.device("cpu"))

    def __call__(self, x: Any) -> NDArray[np.float32]:  # noqa: ANN401 - an array or a DataFrame
        """Outputs of a batch, logits turned into probabilities."""
        rows = torch.as_tensor(np.array(x, dtype=np.float32)).to(self.device)
        with torch.no_grad():
            parts = [take_entry(self.ask(part), self.entry) for part in rows.split(self.most_rows)]
            out = torch.cat([as_columns(part).float() for part in parts])
        if self.probabilities is None:
            self.probabilities = self.kind == "classes" and sum_to_one(out)
        return (out if self.probabilities else PREDICTIONS[self.kind](out)).cpu().numpy()


def _load_program(path: Path) -> torch.export.ExportedProgram:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        return torch.export.load(path)
    except Exception as error:  # torch raises many kinds
        raise ValueError(f"{path} is damaged, or was not saved by torch.export.save ({error})") from error


def _most_rows(program: torch.export.ExportedProgram, path: Path) -> int:
    """Return how many rows a program accepts at once; raise an error if the number is fixed."""
    names = program.graph_signature.user_inputs
    if len(names) != 1:
        raise ValueError(f"{path} takes {len(names)} inputs: export a model of one input")
    value = next(node.meta["val"] for node in program.graph.nodes if node.name == names[0])
    rows = value.shape[0]
    if isinstance(rows, int):
        raise ValueError(  # noqa: TRY004 - the file is wrong, not the type of an argument
            f"{path} takes batches of {rows} inputs only: export it with {HOW_TO_EXPORT}"
        )
    bounds = program.range_constraints.get(rows.node.expr)
    return 2**31 if bounds is None or not bounds.upper.is_Integer else int(bounds.upper)


def _find_output(program: torch.export.ExportedProgram, path: Path, kind: Kind, rows: int) -> Entry | None:
    """Return which entry of what a program returns are its outputs; raise an error if they are not what `kind` says."""
    nodes = {node.name: node for node in program.graph.nodes}
    signature = program.graph_signature
    entry = None
    value = nodes[signature.user_outputs[0]].meta["val"] if signature.user_outputs[0] in nodes else None
    if len(signature.user_outputs) > 1:
        example = nodes[signature.user_inputs[0]].meta["val"]
        sides = [int(side) for side in example.shape[1:]]
        returned = program.module()(torch.zeros(rows, *sides, dtype=example.dtype, device=example.device))
        try:
            entry = find_entry(returned, rows)
        except ValueError as error:
            raise ValueError(f"{path}: {error}; then export it again") from error
        value = take_entry(returned, entry)
    if not isinstance(value, Tensor) or value.ndim not in (1, 2):
        result = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"{path} must return (batch, outputs), it returns {result}")
    if kind == "classes" and (value.ndim == 1 or value.shape[1] == 1):
        raise ValueError(
            f"{path} has one output, so it has no classes: use output='label_probability' if the output is the logit "
            "of a label, output='raw' if it is a number"
        )
    return entry
