"""Every public name has a docstring with an example that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import fwshapley as fw

PARTS = ("", ".audit", ".explanation", ".explanation.baselines", ".games", ".serving", ".trees", ".valuation")
CONSTANTS = {"FEASIBLE_SET", "BASELINES"}
"""Names whose docstrings Python does not keep."""

WITHOUT_EXAMPLE = {
    "AnyGame",  # a type
    # Results: the example is that of the function that returns them.
    *("ChosenWeights", "CrossFit", "Curve", "Detection", "ExportedExplainer", "Flipped"),
    *("SuggestedTargets", "Suggestions", "TextAttribution"),
    *("Decision", "ReviewNeighbor", "ReviewPoint"),
    "photo_features",  # needs a network that is not installed everywhere
}


def public_objects() -> Iterator[tuple[str, object]]:
    seen = set()
    for module in (importlib.import_module(f"fwshapley{part}") for part in PARTS):
        for name in module.__all__:
            member = getattr(module, name)
            if not isinstance(member, ModuleType | str) and name not in CONSTANTS and id(member) not in seen:
                seen.add(id(member))
                yield f"{module.__name__}.{name}", member


OBJECTS = dict(public_objects())


def examples_of(name: str) -> list[doctest.DocTest]:
    """Examples in the docstring of a public name and in those of its own methods."""
    finder = doctest.DocTestFinder(recurse=inspect.isclass(OBJECTS[name]))
    module = inspect.getmodule(OBJECTS[name])
    scope = {**vars(module), "fw": fw, "np": np, "torch": torch}
    found = finder.find(OBJECTS[name], name, globs=scope, module=module)
    return [test for test in found if test.examples]


@pytest.mark.parametrize("name", OBJECTS)
def test_every_public_name_has_an_example(name: str) -> None:
    assert inspect.getdoc(OBJECTS[name])
    has_example = bool(examples_of(name))
    assert has_example != (name.rpartition(".")[2] in WITHOUT_EXAMPLE), f"{name} needs an example in its docstring"


@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore")  # examples train for a few steps
@pytest.mark.parametrize("name", OBJECTS)
def test_examples_of_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    for test in examples_of(name):
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        report: list[str] = []
        runner.run(test, out=report.append)
        assert not runner.failures, "".join(report)
