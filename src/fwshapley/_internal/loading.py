"""Load anything that the package has saved."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from fwshapley._internal.checks import check_path
from fwshapley._internal.safetensors_file import read_metadata

CLASSES = {
    "attribution": ("fwshapley.explanation.attribution", "Attribution"),
    "text attribution": ("fwshapley.explanation.text.text_attribution", "TextAttribution"),
    "valuation": ("fwshapley.valuation.result", "Valuation"),
    "estimate": ("fwshapley.estimators.estimate", "Estimate"),
    "explainer": ("fwshapley.explanation.learned.feature_explainer", "FeatureExplainer"),
    "interventional explainer": ("fwshapley.explanation.untrained.interventional_explainer", "InterventionalExplainer"),
    "linear explainer": ("fwshapley.explanation.untrained.linear_explainer", "LinearExplainer"),
    "pipeline explainer": ("fwshapley.explanation.untrained.pipeline_explainer", "PipelineExplainer"),
    "tree ensemble": ("fwshapley.trees.ensemble", "TreeEnsemble"),
    "tree explainer": ("fwshapley.trees.explainer", "TreeExplainer"),
    "valuator": ("fwshapley.valuation.learned.valuator", "AmortizedValuator"),
}
"""Module and class of each kind of saved file; a module is imported when a file of its kind is loaded."""

EXPLAINER_FILE = "explainer.safetensors"


def load(path: str | os.PathLike[str], **options: Any) -> Any:  # noqa: ANN401 - of the class that was saved
    """Load an explainer, a valuator, an attribution, a valuation or an estimate.

    Args:
        path: the file, or the folder of an explainer.
        options: of the `load` of its class, such as `model` and `device` of `FeatureExplainer.load`.

    Example:
        >>> import pathlib, tempfile
        >>> estimate = fw.permutation_values(fw.games.Glove(left=1, right=2), fw.Shapley(), n_calls=40, progress=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     estimate.save(pathlib.Path(folder) / "estimate.safetensors")
        ...     type(fw.load(pathlib.Path(folder) / "estimate.safetensors")).__name__
        'Estimate'
    """
    place = check_path("path", path)
    file = place / EXPLAINER_FILE if place.is_dir() else place
    kind = read_metadata(file)["kind"]
    if kind not in CLASSES:
        raise ValueError(f"{file} contains a {kind}, which is not a result; expected one of {', '.join(CLASSES)}")
    module, name = CLASSES[kind]
    return getattr(import_module(module), name).load(file, **options)
