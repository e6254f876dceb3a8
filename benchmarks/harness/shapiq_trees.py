"""Values of tree models by shapiq 1.8, in an environment of its own: it needs Python 3.12.

`tree_agreement.py` writes a folder and calls this file with the Python of that environment:

    python shapiq_trees.py FOLDER

`task.json` there names the models and weightings, `data.npz` has the rows; models are the libraries' own files, or the
arrays of a scikit-learn forest. The values go to `values.npz`, the version of shapiq to `version.txt`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import beta as beta_function

shapiq: Any = import_module("shapiq")  # of another version than the one that types are checked with
shapiq_trees: Any = import_module("shapiq.tree")

INDICES = {"Shapley": "SV", "Banzhaf(0.5)": "BV"}
"""What shapiq calls the weightings that it has; others are computed by a weight function."""


def main(folder: Path) -> None:
    """Read the task, explain every model under every weighting, write the values."""
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    data = np.load(folder / "data.npz")
    values = {}
    for kind, file in task["models"].items():
        model = READERS[kind](folder / file)
        for name, shape in task["weightings"].items():
            explainer = interventional(model, data["background"], name, shape)
            values[f"interventional, {kind}, {name}"] = explain_rows(explainer, data["x"])
            if name in INDICES:
                path_dependent = shapiq_trees.QuadratureTreeSHAP(model, max_order=1, index=INDICES[name])
                values[f"path-dependent, {kind}, {name}"] = explain_rows(path_dependent, data["x"])
    np.savez(folder / "values.npz", **values)
    (folder / "version.txt").write_text(shapiq.__version__, encoding="utf-8")


def interventional(model: Any, background: Any, name: str, shape: list[float] | None) -> Any:  # noqa: ANN401 - shapiq's
    """Return shapiq's explainer of a weighting, Beta(alpha, beta) by a weight function."""
    if name in INDICES:
        return shapiq_trees.InterventionalTreeSHAPIQ(model, background, max_order=1, index=INDICES[name])
    if shape is None:
        raise ValueError(f"{name} has neither an index of shapiq nor the shape of a Beta distribution")
    return shapiq_trees.InterventionalTreeSHAPIQ(model, background, max_order=1, weight_fn=beta_weights(*shape))


def beta_weights(alpha: float, beta: float) -> Callable[[int, int, int], float]:
    """Return the weight of a coalition of some size that a player joins; shapiq asks for sizes below 0, unused."""

    def weight(size: int, _: int, players: int) -> float:
        if not 0 <= size < players:
            return 0.0
        return float(beta_function(size + beta, players - 1 - size + alpha) / beta_function(alpha, beta))

    return weight


def explain_rows(explainer: Any, x: Any) -> Any:  # noqa: ANN401 - arrays
    """Return (rows, players)."""
    values = np.zeros(x.shape)
    for number, row in enumerate(x):
        found = explainer.explain_function(row)
        for players, position in found.interaction_lookup.items():
            if len(players) == 1:
                values[number, players[0]] = found.values[position]
    return values


def read_xgboost(path: Path) -> Any:  # noqa: ANN401 - XGBoost's
    """Read XGBoost's JSON."""
    from xgboost import XGBRegressor  # noqa: PLC0415 - only models of the task are imported

    model = XGBRegressor()
    model.load_model(path)
    return model


def read_lightgbm(path: Path) -> Any:  # noqa: ANN401 - LightGBM's
    """Read LightGBM's text."""
    import lightgbm  # noqa: PLC0415 - as above

    return lightgbm.Booster(model_file=path)


def read_forest(path: Path) -> list[Any]:
    """Read the arrays of a scikit-learn forest, whose prediction is the mean of its trees."""
    arrays = np.load(path)
    roots = arrays["roots"]
    trees = []
    for begin, end in zip(roots, [*roots[1:], len(arrays["feature"])], strict=True):
        part = {name: arrays[name][begin:end] for name in arrays.files if name != "roots"}
        trees.append(
            shapiq_trees.TreeModel(
                children_left=part["children_left"],
                children_right=part["children_right"],
                children_missing=part["children_left"],
                features=part["feature"],
                thresholds=part["threshold"],
                values=part["value"] / len(roots),
                node_sample_weight=part["weighted_n_node_samples"],
                input_precision="float32",
            )
        )
    return trees


READERS: dict[str, Callable[[Path], Any]] = {
    "XGBoost": read_xgboost,
    "LightGBM": read_lightgbm,
    "random forest": read_forest,
}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
