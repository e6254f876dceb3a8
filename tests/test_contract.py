"""Everything public refuses bad input by an error of the package's own, which names what was wrong."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sklearn.exceptions import NotFittedError

import fwshapley
from contract_cases import TABLE
from contract_world import Case, World, key_of

LONGEST_MESSAGE = 400
"""An error is read by a person: it holds no tensors."""

FILES = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)
OWN = (ValueError, TypeError, RuntimeError, NotFittedError, OSError, *FILES)
"""What the package raises; others come from the depths of a library. RuntimeError is for rows that ask for it."""

API = Path(__file__).parents[1] / "docs" / "api"
ROOMS = (
    *(
        "audit",
        "datasets",
        "estimators",
        "explanation",
        "explanation.baselines",
        "explanation.metrics",
        "games",
        "players",
    ),
    *("semivalues", "training", "valuation"),
)
MODULES = ("fwshapley", *(f"fwshapley.{room}" for room in ROOMS))

UNCHECKED = {
    # Results, which the package makes and users read.
    *(
        "Attribution",
        "ChosenWeights",
        "ErrorModel",
        "Estimate",
        "Fidelity",
        "History",
        "MethodScores",
        "Predictions",
        "Quality",
        "Score",
        "TextAttribution",
        "metrics.Agreement",
        "datasets.LabeledImages",
        "Predictions.to",
    ),
    *("valuation.CrossFit", "valuation.Curve", "valuation.Detection", "valuation.Flipped", "valuation.Valuation"),
    *("Decision", "ReviewNeighbor", "ReviewPoint"),
    "valuation.SuggestedTargets",
    "valuation.Suggestions",
    *("valuation.ValuationFidelity", "valuation.ValuationFidelity.between"),
    # They take no arguments, or any that Python itself refuses.
    # Asked at every step of training, by what has checked its own.
    *("Budget.spent", "History.followed_by"),
    *("FewStepsWarning", "FidelityWarning", "QualityWarning", "LeaveOneOut", "Shapley", "Semivalue"),
    # Rows of a registry and stand-ins, which users read.
    "baselines.BaselineMethod",
    # Protocols, which have no code.
    *("games.Game", "games.KnownGame", "games.KnownGame.values", "Semivalue.log_join_law"),
    # Asked in inner loops, by what has checked its arguments: games, modules, parts of players.
    *("games.MaskedModel", "games.MaskedModel.empty_values", "games.MaskedModel.full_values"),
    *("games.MaskedModel.by_count", "games.MaskedModel.counts", "games.MaskedModel.members"),
    *(
        "games.CheckedGame.drop_single_output",
        "Players.assignment_on",
        "Players.for_table",
        "Players.pool",
        "Players.spread",
        "Players.sum",
    ),
    *(
        "SelectOutput.forward",
        "Surrogate.forward",
        "Surrogate.with_players",
        "TableSurrogate.forward",
        "TableSurrogate.members",
        "TableSurrogate.predict_coalitions",
    ),
    # What a file says, which is checked as a whole.
    *("ErrorModel.from_facts", "Fidelity.from_facts", "History.from_facts", "Players.from_facts", "Quality.from_facts"),
    # Asked by what has measured or checked their arguments.
    *("MethodScores.error", "Quality.break_even", "Quality.choose", "Quality.nearest", "Quality.worst_error"),
    *("Score.of", "Score.of_samplings"),
    # Options without a meaning to be wrong about.
    "FeatureExplainer.get_params",
}
"""Public, and without a row for a reason."""


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """What calls are made with; its parts are made when they are first asked for."""
    folder = tmp_path_factory.mktemp("contract") / "folder"
    folder.mkdir()
    return World(folder)


def documented() -> Iterator[Callable[..., Any]]:
    """Functions and classes that the reference documents, of the modules that users call, and all of `__all__`."""
    for page in sorted(API.glob("*.md")):
        module = ""
        for kind, name in re.findall(
            r"^\.\. (currentmodule|autofunction|autoclass):: ([\w.]+)", page.read_text(), re.MULTILINE
        ):
            module = name if kind == "currentmodule" else module
            if kind != "currentmodule" and module in MODULES:
                yield getattr(importlib.import_module(module), name)
    for name in fwshapley.__all__:
        public = getattr(fwshapley, name)
        if callable(public):
            yield public


def methods(public: type) -> Iterator[Callable[..., Any]]:
    """Public methods of a class that take arguments, also those that it has from others of the package."""
    for name, member in inspect.getmembers(public, callable):
        ours = getattr(member, "__module__", None) or ""
        if name.startswith("_") or not ours.startswith("fwshapley") or inspect.isclass(member):
            continue
        if [each for each in inspect.signature(member).parameters if each != "self"]:
            yield member


def everything() -> dict[str, Callable[..., Any]]:
    """Return all that must have a row, by name."""
    found = list(documented())
    found += [method for public in found if inspect.isclass(public) for method in methods(public)]
    return {key_of(public): public for public in found}


@pytest.mark.parametrize("name", sorted(everything()))
def test_everything_public_has_a_row(name: str) -> None:
    rows = {key_of(case.of) for case in TABLE}
    assert (name in rows) != (name in UNCHECKED), "add a row of bad input to contract_cases.py, or a reason here"


def test_rows_have_names_of_their_own() -> None:
    names = [case.name for case in TABLE]
    assert len(set(names)) == len(names)


def test_reasons_are_for_what_is_public() -> None:
    assert everything().keys() >= UNCHECKED


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.name)
@pytest.mark.usefixtures("unchecked")
def test_bad_input_is_refused_by_name(case: Case, world: World) -> None:
    with warnings.catch_warnings(action="ignore"), pytest.raises(case.error) as caught:
        case.call(world)
    message = str(caught.value)
    assert type(caught.value) in OWN
    assert len(message) <= LONGEST_MESSAGE
    assert any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", message) for word in case.words), message
