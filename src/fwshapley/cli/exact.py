"""Explainers that are not trained, on the command line: made of a model or loaded from a file, and asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

import fwshapley as fw
from fwshapley._internal.wording import listed
from fwshapley.cli.explanation_files import Explanations
from fwshapley.cli.fit_record import SavedExplainer, columns_of_trees, find_file
from fwshapley.cli.input_files import Inputs, named
from fwshapley.cli.input_format import InputFormat
from fwshapley.cli.model_loading import OutputChoice, find_model
from fwshapley.cli.request import Request
from fwshapley.explanation.method_choice import Choice, Game, Method, choose_method
from fwshapley.explanation.untrained.exact_explainer import ExactExplainer, describe_scale
from fwshapley.tables.trained_categories import find_categories
from fwshapley.trees.libraries import is_tree_model

REFUSED = "method='trees' cannot be used: "
"""How an error starts that says why a model's trees cannot be used."""


@dataclass(frozen=True)
class NamedModel:
    """A model that the command line names.

    Attributes:
        name: as it was given.
        model: what was found.
        trees: the model's trees, if it is a tree ensemble that can be read.
    """

    name: str
    model: Any
    trees: Any = None

    @classmethod
    def find(cls, name: str, output: OutputChoice, *, exact: bool = True) -> NamedModel:
        """Find a model by name, and read its trees unless nothing exact is wanted."""
        model = find_model(name, output)
        is_read = type(model).__name__ == "TreeEnsemble"
        return cls(name, model, model if is_read else _read_trees(model) if exact else None)

    @property
    def is_file(self) -> bool:
        """Whether the model is a file of trees, which contains nothing else that could be called."""
        return self.trees is not None and self.model is self.trees

    @property
    def about_columns(self) -> str:
        """A note on the order of columns, if the model is an estimator that does not know their names."""
        if hasattr(self.model, "n_features_in_") and not hasattr(self.model, "feature_names_in_"):
            return "the model was fitted without names of columns: it gets them in the order of the file"
        return ""

    def with_columns(self, wanted: InputFormat) -> InputFormat:
        """Return the format with the columns that the model was fitted with, if it has their names."""
        if self.trees is not None and self.trees.named:
            known = columns_of_trees(self.trees.feature_names, self.trees.levels)
        else:
            names = getattr(self.model, "feature_names_in_", None) if self.trees is None else None
            levels = {} if self.trees is not None else find_categories(self.model)
            texts = tuple(name for name, of in levels.items() if any(isinstance(level, str) for level in of))
            known = InputFormat(columns=None if names is None else tuple(map(str, names)), texts=texts)
        needed = [name for name in wanted.left_out if name in (known.columns or ())]
        if needed:
            raise ValueError(f"column {needed[0]} cannot be left out: the model was fitted with it")
        return replace(wanted, columns=known.columns, texts=known.texts)

    def choose(
        self,
        background: Inputs | None,
        columns: tuple[str, ...] | None,
        *,
        method: Method,
        game: Game = "auto",
        n_calls: int | Literal["auto"] = "auto",
        output: OutputChoice = "auto",
        output_names: list[str] | None = None,
        device: str = "auto",
        seed: int = 0,
    ) -> Choice:
        """Return the explainer that the model allows without training, or why there is none.

        Args:
            background: rows that stand in for hidden features.
            columns: their names.
            method: "auto", or the one to use.
            game: as for `fw.Explainer`.
            n_calls: as for `fw.Explainer`.
            output: scale of the values.
            output_names: names of outputs.
            device: of torch modules and trees.
            seed: of the background rows that enumeration chooses.
        """
        with named(background):
            return choose_method(
                self.model,
                None if background is None else background.x,
                method="trees" if method == "auto" and self.is_file else method,
                game=game,
                n_calls=n_calls,
                players=None if columns is None else fw.columns(len(columns), columns),
                output=output,
                output_names=output_names,
                device=device,
                seed=seed,
            )


def make_untrained(
    model: NamedModel,
    background: Inputs | None,
    columns: tuple[str, ...] | None,
    *,
    game: Game,
    n_calls: int | Literal["auto"],
    output_names: list[str] | None,
    device: str,
) -> tuple[ExactExplainer, str]:
    """Return the explainer of a model that needs no training, and a note on it; raise an error that says why not."""
    if game == "conditional":
        raise ValueError(
            "--game conditional needs an explainer that is trained: run fwshapley fit, then explain with it"
        )
    if background is not None:
        choice = model.choose(
            background,
            columns,
            game="interventional",
            method="auto",
            n_calls=n_calls,
            output_names=output_names,
            device=device,
        )
        assert choice.explainer is not None  # noqa: S101 - the interventional game trains nothing
        return choice.explainer, f"method {choice}"
    if not is_tree_model(model.model) or game == "interventional":
        why = "--game interventional" if is_tree_model(model.model) else f"{model.name}, which is not a tree ensemble,"
        raise ValueError(
            f"{why} needs rows that stand in for hidden features: --background must be given. Or train an explainer "
            "with fwshapley fit"
        )
    try:
        choice = model.choose(None, columns, method="trees", output_names=output_names, device=device)
    except ValueError as error:
        why = str(error)
        if not why.startswith(REFUSED):
            raise
        raise ValueError(
            f"{model.name} has no exact values without --background ({why.removeprefix(REFUSED)}): give rows that "
            "stand in for hidden features, or train an explainer with fwshapley fit"
        ) from error
    assert choice.explainer is not None  # noqa: S101 - or there was an error
    return choice.explainer, f"method {choice}; --background gives rows that do so instead"


def load_exact(path: Path, saved: SavedExplainer, name: str | None, device: str) -> ExactExplainer:
    """Load an exact explainer, with its model where it needs one; the folder never determines which code runs."""
    options: dict[str, Any] = {}
    if name is not None and saved.kind == "tree explainer":
        raise ValueError(f"{path} contains the trees of the model: leave --model out")
    if name is None and saved.needs_model is not None:
        how = saved.how_to_name_model("the model that was explained")
        raise ValueError(f"{path} calls the model, a {saved.needs_model}, and does not contain it: give {how}")
    if name is not None:
        options["model"] = find_model(name, saved.output)
    if saved.kind in {"tree explainer", "pipeline explainer"}:
        options["device"] = "cpu" if device == "auto" else device
    if saved.kind == "interventional explainer":
        options["device"] = device
    explainer: ExactExplainer = fw.load(find_file(path), **options)
    return explainer


def refuse_estimates(name: str, request: Request) -> None:
    """Raise an error if an option is given that corrects or judges learned values."""
    if request.refine is not None:
        raise ValueError(f"--refine corrects learned values, and those of {name} are not learned: leave it out")
    if request.errors:
        raise ValueError(f"--errors is about learned values, and those of {name} are not learned: leave it out")


def explain_exactly(explainer: ExactExplainer, batch: Inputs, read_as: InputFormat, request: Request) -> Explanations:
    """Return values of the inputs, with standard errors if they are sampled, and what the model predicts."""
    x = batch.x
    are_classes = explainer.has_classes and len(explainer.output_names) > 1
    outputs = request.choose_outputs(explainer.output_names, are_classes=are_classes)
    with named(batch):
        predicted = explainer.predict(x)
        attribution = explainer.explain(
            x,
            weights=request.weights or [fw.Shapley()],
            outputs=outputs,
            total="raw" if request.total == "auto" else request.total,
        )
    return Explanations(
        attribution=_as_tensors(attribution),
        inputs=batch,
        format=read_as,
        predictions={"the model": torch.from_numpy(predicted)},
        kind="classes" if are_classes else "values",
        predicted_by="the model" if outputs == "predicted" and are_classes else None,
    )


def about_scale(explainer: ExactExplainer) -> str:
    """Return a note on the scale of the values."""
    return f"explained output: {describe_scale(explainer.provenance['output'])}"


def about_unknown(batch: Inputs, explainer: ExactExplainer) -> list[str]:
    """Warn of categories that the model was not trained with, and for which its library has a rule."""
    trees = getattr(explainer, "ensemble", None)
    if trees is None or isinstance(explainer, fw.PipelineExplainer) or not isinstance(batch.x, pd.DataFrame):
        return []
    notes = []
    for column, levels in trees.levels.items():
        entries = batch.x.iloc[:, column].dropna().unique().tolist()
        unknown = [entry for entry in entries if entry not in levels and str(entry) not in levels]
        if unknown:
            treated = "as missing" if trees.unseen == "missing" else "as the library does"
            name = batch.x.columns[column]
            notes.append(
                f"warning: column {name} has categories that the model was not trained with, {listed(unknown)}: "
                f"treated {treated}"
            )
    return notes


def _read_trees(model: Any) -> Any:  # noqa: ANN401 - a TreeEnsemble, whose module needs numba
    """Return the trees of a model; None if it has none, or if `choose` will say why they cannot be read."""
    if not is_tree_model(model):
        return None
    from fwshapley.trees.model_reader import read_model  # noqa: PLC0415 - it needs numba

    try:
        return read_model(model)
    except (TypeError, ValueError):
        return None


def _as_tensors(attribution: fw.Attribution) -> fw.Attribution:
    """Return an attribution with tensors, as those of learned explainers have."""
    names = ("values", "stderr", "base_values", "outputs", "inputs")
    arrays = {name: getattr(attribution, name) for name in names}
    tensors: dict[str, Any] = {
        name: torch.from_numpy(np.array(array)) for name, array in arrays.items() if array is not None
    }
    return replace(attribution, **tensors)
