"""Exact values of tree ensembles beside shap, woodelf, shapiq, XGBoost and LightGBM: the largest difference.

Every package explains the same rows of the same models wherever it computes the same values: shap Shapley values,
woodelf also Banzhaf values, shapiq any weighting of the interventional game, XGBoost and LightGBM the path-dependent
Shapley values of their own models. shapiq 1.8 needs Python 3.12: it computes in an environment of its own, made with
`python3.12 -m venv shapiq312` and `shapiq312/bin/pip install 'shapiq>=1.8' xgboost-cpu lightgbm scikit-learn`.

    python benchmarks/run.py tree_agreement --shapiq-python shapiq312/bin/python
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.options import ExperimentParser, existing_path
from benchmarks.harness.record import record
from fwshapley.plots import COLORS, new_figure

SEEDS = (0, 1, 2)
FITTED_ROWS, EXPLAINED, BACKGROUND, COLUMNS, TREES, DEPTH = 2000, 50, 100, 12, 100, 6
SMOKE_EXPLAINED, SMOKE_BACKGROUND, SMOKE_TREES = 3, 5, 3
WEIGHTINGS = (fw.Shapley(), fw.Banzhaf(), fw.Beta(16, 1), fw.Beta(4, 1), fw.Beta(1, 4))
GAMES = ("interventional", "path-dependent")
PACKAGES = ("shap", "woodelf-explainer", "xgboost-cpu", "lightgbm", "scikit-learn", "numba")
CHILD = Path(__file__).parents[1] / "harness" / "shapiq_trees.py"
SMALLEST_DRAWN = 1e-17
"""Where no difference at all is drawn, on a logarithmic axis."""

Rows = NDArray[np.float64]


class Values(NamedTuple):
    """Values that a package computed.

    Attributes:
        package: its name.
        game: one of GAMES.
        weighting: name of the weighting.
        kind: of the model.
        values: (rows, players).
    """

    package: str
    game: str
    weighting: str
    kind: str
    values: Rows


def main(arguments: argparse.Namespace) -> None:
    """Explain, compare, print, draw, record."""
    started = time.perf_counter()
    rows: dict[tuple[str, str, str], dict[str, float]] = {}
    largest: dict[str, dict[str, float]] = {game: {} for game in GAMES}
    versions: dict[str, str] = {}
    for seed in arguments.seeds:
        x, background, models = make_models(seed, arguments)
        ours = {game: explain(models, background if game == "interventional" else None, x) for game in GAMES}
        for game, kinds in ours.items():
            for kind, values in kinds.items():
                size = max(float(np.abs(each).max()) for each in values.values())
                largest[game][kind] = max(size, largest[game].get(kind, 0.0))
        for theirs in others(models, background, x, arguments.shapiq_python, versions):
            row = rows.setdefault((theirs.game, theirs.package, theirs.weighting), {})
            difference = float(np.abs(ours[theirs.game][theirs.kind][theirs.weighting] - theirs.values).max())
            row[theirs.kind] = max(difference, row.get(theirs.kind, 0.0))
    found = [
        {"game": game, "package": package, "weighting": weighting, "differences": differences}
        for (game, package, weighting), differences in sorted(rows.items(), key=place)
    ]
    print(*map(json.dumps, found), sep="\n", flush=True)
    sizes = {"explained": len(x), "background": len(background), "columns": COLUMNS, "trees": arguments.trees}
    results = {"differences": found, "largest values": largest, "sizes": sizes | {"depth": DEPTH}, "others": versions}
    record(
        "tree_agreement", results, out=arguments.out, seeds=arguments.seeds, started=started, packages=PACKAGES,
        device="cpu",
    )  # fmt: skip
    save_figure(partial(draw, found), "tree_agreement", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(
        __doc__, smoke="a few small trees and rows, without shapiq", seeds=SEEDS, seeds_of="data and models"
    )
    parser.add_argument(
        "--shapiq-python",
        type=existing_path,
        help="Python of an environment that has shapiq 1.8; without it, no shapiq",
    )
    arguments = parser.parse(options)
    arguments.explained, arguments.background, arguments.trees = EXPLAINED, BACKGROUND, TREES
    if arguments.smoke:
        arguments.explained, arguments.background, arguments.trees = SMOKE_EXPLAINED, SMOKE_BACKGROUND, SMOKE_TREES
    return arguments


def make_models(seed: int, arguments: argparse.Namespace) -> tuple[Rows, Rows, dict[str, Any]]:
    """Return rows to explain, background rows, and a model of each kind, fitted to a target with interactions."""
    from lightgbm import LGBMRegressor  # noqa: PLC0415 - `--help` does without
    from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415 - as above
    from xgboost import XGBRegressor  # noqa: PLC0415 - as above

    generator = np.random.default_rng(seed)
    count = arguments.explained + arguments.background
    x = generator.normal(size=(FITTED_ROWS + count, COLUMNS)).astype(np.float32).astype(np.float64)
    y = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3:6].sum(1) * x[:, 6] + np.abs(x[:, 7])
    trees, rate = arguments.trees, 0.1
    models = {
        "XGBoost": XGBRegressor(n_estimators=trees, max_depth=DEPTH, learning_rate=rate, random_state=seed),
        "LightGBM": LGBMRegressor(
            n_estimators=trees, max_depth=DEPTH, num_leaves=2**DEPTH, learning_rate=rate, random_state=seed, verbose=-1
        ),
        "random forest": RandomForestRegressor(trees, max_depth=DEPTH, max_features=0.5, random_state=seed),
    }
    for model in models.values():
        model.fit(x[:FITTED_ROWS], y[:FITTED_ROWS])
    return x[FITTED_ROWS : FITTED_ROWS + arguments.explained], x[FITTED_ROWS + arguments.explained :], models


def explain(models: Mapping[str, Any], background: Rows | None, x: Rows) -> dict[str, dict[str, Rows]]:
    """Return our values of every kind of model under every weighting."""
    found = {}
    for kind, model in models.items():
        values = fw.TreeExplainer(model, background).explain(x, weights=list(WEIGHTINGS)).values
        found[kind] = {str(each): np.asarray(part)[..., 0] for each, part in zip(WEIGHTINGS, values, strict=True)}
    return found


def others(
    models: Mapping[str, Any], background: Rows, x: Rows, shapiq_python: Path | None, versions: dict[str, str]
) -> Iterator[Values]:
    """Yield the values of every other package; the version of shapiq is added to `versions`."""
    for kind, model in models.items():
        for game, stand_in in zip(GAMES, (background, None), strict=True):
            yield Values("shap", game, "Shapley", kind, by_shap(model, stand_in, x))
            for weighting, values in by_woodelf(model, stand_in, x).items():
                yield Values("woodelf", game, weighting, kind, values)
    for kind, contributions in OWN.items():
        yield Values("the library", "path-dependent", "Shapley", kind, contributions(models[kind], x))
    if shapiq_python is not None:
        yield from by_shapiq(models, background, x, shapiq_python, versions)


def by_shap(model: Any, background: Rows | None, x: Rows) -> Rows:  # noqa: ANN401 - of any library
    """Shapley values by shap."""
    import shap  # noqa: PLC0415 - as above

    game = "tree_path_dependent" if background is None else "interventional"
    theirs = shap.TreeExplainer(model, background, feature_perturbation=game)
    return np.asarray(theirs.shap_values(x, check_additivity=False), dtype=np.float64)


def by_woodelf(model: Any, background: Rows | None, x: Rows) -> dict[str, Rows]:  # noqa: ANN401 - as above
    """Shapley and Banzhaf values by woodelf, which takes tables and prints its progress."""
    import woodelf  # noqa: PLC0415 - as above

    theirs = woodelf.WoodelfExplainer(model, None if background is None else pd.DataFrame(background))
    with contextlib.redirect_stdout(None), contextlib.redirect_stderr(io.StringIO()):
        found = {
            "Shapley": theirs.shap_values(pd.DataFrame(x)),
            str(fw.Banzhaf()): theirs.banzhaf_values(pd.DataFrame(x)),
        }
    return {weighting: np.asarray(values, dtype=np.float64) for weighting, values in found.items()}


def by_xgboost(model: Any, x: Rows) -> Rows:  # noqa: ANN401 - as above
    """Path-dependent Shapley values by XGBoost itself."""
    import xgboost  # noqa: PLC0415 - as above

    return np.asarray(model.get_booster().predict(xgboost.DMatrix(x), pred_contribs=True)[:, :-1], dtype=np.float64)


def by_lightgbm(model: Any, x: Rows) -> Rows:  # noqa: ANN401 - as above
    """Path-dependent Shapley values by LightGBM itself."""
    return np.asarray(model.booster_.predict(x, pred_contrib=True)[:, :-1], dtype=np.float64)


OWN: Mapping[str, Callable[[Any, Rows], Rows]] = {"XGBoost": by_xgboost, "LightGBM": by_lightgbm}
"""Libraries that explain their own models, by kind of model."""


def by_shapiq(
    models: Mapping[str, Any], background: Rows, x: Rows, python: Path, versions: dict[str, str]
) -> Iterator[Values]:
    """Values by shapiq, in the environment of another Python, which reads the models from their own files."""
    shapes = {str(each): [each.alpha, each.beta] if isinstance(each, fw.Beta) else None for each in WEIGHTINGS}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = {"XGBoost": "xgboost.json", "LightGBM": "lightgbm.txt", "random forest": "forest.npz"}
        models["XGBoost"].save_model(folder / files["XGBoost"])
        models["LightGBM"].booster_.save_model(folder / files["LightGBM"])
        np.savez(folder / files["random forest"], **arrays_of(models["random forest"]))
        np.savez(folder / "data.npz", x=x, background=background)
        (folder / "task.json").write_text(json.dumps({"models": files, "weightings": shapes}), encoding="utf-8")
        alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([str(python), "-W", "ignore", str(CHILD), temporary], check=True, env=alone)  # noqa: S603 - our file
        versions["shapiq"] = (folder / "version.txt").read_text(encoding="utf-8")
        with np.load(folder / "values.npz") as found:
            for name in found.files:
                game, kind, weighting = name.split(", ", 2)
                yield Values("shapiq", game, weighting, kind, found[name])


def arrays_of(forest: Any) -> dict[str, Any]:  # noqa: ANN401 - scikit-learn's
    """Return the arrays of a forest as scikit-learn has them, one tree after another, with the first node of each."""
    trees = [each.tree_ for each in forest.estimators_]
    names = ("children_left", "children_right", "feature", "threshold", "weighted_n_node_samples")
    arrays = {name: np.concatenate([getattr(tree, name) for tree in trees]) for name in names}
    arrays["value"] = np.concatenate([tree.value[:, 0, 0] for tree in trees])
    arrays["roots"] = np.cumsum([0, *(tree.node_count for tree in trees[:-1])])
    return arrays


def place(row: tuple[tuple[str, str, str], Mapping[str, float]]) -> tuple[int, str, int]:
    """Place of a row: games and weightings in their order, packages by name."""
    game, package, weighting = row[0]
    return GAMES.index(game), package, list(map(str, WEIGHTINGS)).index(weighting)


def draw(rows: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Draw the largest difference of each package and weighting, a panel per game and a color per kind of model."""
    figure = new_figure(width=10, height=3.4)
    for axes, game in zip(figure.subplots(1, len(GAMES), sharex=True), GAMES, strict=True):
        mine = [row for row in rows if row["game"] == game]
        labels = [f"{row['package']}, {row['weighting']}" for row in mine]
        kinds = list(dict.fromkeys(kind for row in rows for kind in row["differences"]))
        for kind, color in zip(kinds, COLORS, strict=False):
            points = [(row["differences"][kind], place) for place, row in enumerate(mine) if kind in row["differences"]]
            differences, places = zip(*points, strict=True)
            axes.plot(np.maximum(differences, SMALLEST_DRAWN), places, "o", color=color, label=kind, markersize=5)
        axes.set_yticks(range(len(labels)), labels, fontsize="small")
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_title(game, fontsize="medium")
        axes.set_xlabel("largest difference")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(visible=True, alpha=0.25)
    figure.axes[0].legend(frameon=False, fontsize="small")
    return figure
