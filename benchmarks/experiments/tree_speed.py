"""Time of exact values of tree ensembles: both games, one weighting and nine, beside shap, woodelf and XGBoost.

Models are fitted to made data of 30 columns; nothing but the explanation is timed, after a warm-up on other rows that
compiles. Every time is the median of as many runs as fit into `--repeat-seconds`. Cells that would take longer than
`--limit` seconds (`--peer-limit` for other packages) are extrapolated from fewer rows, and marked. One run measures:

- XGBoost and LightGBM, 500 trees of depth 6 and 100 of depth 10, and forests of 200 trees of depth 12.
- 1 to 1,000,000 rows; backgrounds of 1 to 100,000 rows, and the path-dependent game without one.
- The Shapley value alone, and together with the paper's eight weightings.

Measured cells are kept beside the record, so that an interrupted run goes on where it was.

    python benchmarks/run.py tree_speed
    python benchmarks/run.py tree_speed --device cuda --peers
    python benchmarks/run.py tree_speed --models xgboost-500x6 --rows 10000 --background 1000 --peers shap woodelf
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.figures import save_figure
from benchmarks.harness.options import ExperimentParser

COLUMNS = 30
FITTED_ROWS = 20_000
MOST_REPEATS = 20
ROWS = [1, 1_000, 10_000, 1_000_000]
BACKGROUNDS = [0, 1, 100, 1_000, 100_000]
PEERS = ["shap", "woodelf", "xgboost"]
PACKAGES = ["numba", "scikit-learn", "xgboost", "xgboost-cpu", "lightgbm", "shap", "woodelf-explainer"]
MORE = 10
"""Factor between the numbers of rows that are timed to predict how long a cell will take."""

FEW_ROWS = 1_000
"""Rows up to which an explainer that has kept its tables is timed: for more, tables take a small part of the time."""

Rows = NDArray[np.float64]
Method = Callable[[Rows], Any]
Cell = dict[str, Any]
"""What was measured for a model, a background, a method and a number of rows."""


def main(arguments: argparse.Namespace) -> None:
    """Measure, print, record, draw."""
    from benchmarks.harness.record import record  # noqa: PLC0415 - it loads torch

    started = time.perf_counter()
    name = "tree_speed" if arguments.device == "cpu" else "tree_speed_gpu"
    kept = Path(arguments.out) / f"{name}_cells.jsonl"
    cells = read_cells(kept)
    for cell in measure_all(arguments, cells):
        print(json.dumps(cell), flush=True)
        with kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps(cell) + "\n")
        cells.append(cell)
    record(
        name,
        {"cells": cells, "limit": arguments.limit, "peer_limit": arguments.peer_limit},
        out=arguments.out,
        seeds=arguments.seeds,
        started=started,
        packages=[package for package in PACKAGES if is_installed(package)],
        device=arguments.device,
    )
    kept.unlink(missing_ok=True)
    save_figure(partial(draw, cells, arguments.models[0]), name, arguments)


def read_cells(path: Path) -> list[Cell]:
    """Return the cells that an interrupted run has measured."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def measure_all(arguments: argparse.Namespace, kept: Sequence[Cell]) -> Iterator[Cell]:
    """Yield the cells that are not kept yet."""
    seed, sizes = arguments.seeds[0], sorted(arguments.rows)
    done = {tuple(cell[key] for key in ("model", "background", "method", "rows")) for cell in kept}
    x, y = draw_table(300 if arguments.smoke else FITTED_ROWS, seed)
    for name in arguments.models:
        model = fit(name, x, y, smoke=arguments.smoke)
        for background in arguments.background:
            stand_in = draw_table(background, seed + 1)[0] if background else None
            for method, most_rows, explain in methods(name, model, stand_in, arguments.peers, arguments.device):
                missing = [rows for rows in sizes if rows <= most_rows and (name, background, method, rows) not in done]
                is_ours = method.startswith("fwshapley")
                limit = arguments.limit if is_ours else arguments.peer_limit
                trials = (MORE, MORE**2) if is_ours else (MORE,)  # ours changes its method between 1 and 10 rows
                for measured in measure(
                    explain, missing, seed, trials=trials, repeat_seconds=arguments.repeat_seconds, limit=limit
                ):
                    yield {"model": name, "background": background, "method": method} | measured


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(
        __doc__,
        smoke="a few small trees and rows",
        seeds=[0],
        seeds_of="the data and the models",
        single_seed=True,
    )
    parser.add_choices("--models", MODELS, "models to explain", nargs="+", default=list(MODELS))
    parser.add_choices("--peers", PEERS, "other packages to time", nargs="*", default=PEERS)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="numbers of explained rows")
    parser.add_argument("--background", type=int, nargs="+", default=BACKGROUNDS, help="background rows; 0 for none")
    parser.add_argument("--device", default="cpu", help="where ours computes")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds from which a cell is extrapolated")
    parser.add_argument("--peer-limit", type=float, default=60.0, help="the same for other packages")
    parser.add_argument("--repeat-seconds", type=float, default=2.0, help="time for repetitions of a run")
    arguments = parser.parse(options)
    if arguments.smoke:
        arguments.rows, arguments.background = [1, 30], [0, 10]
        arguments.models = arguments.models[:1]
    return arguments


def draw_table(rows: int, seed: int) -> tuple[Rows, Rows]:
    """Draw normal columns, rounded to float32 as XGBoost does, and a target with interactions."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, COLUMNS)).astype(np.float32).astype(np.float64)
    y = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3:10].sum(1) * x[:, 10] + generator.normal(size=rows)
    return x, y


def fit(name: str, x: Rows, y: Rows, *, smoke: bool) -> Any:  # noqa: ANN401 - of any library
    """Fit a model, with a hundredth of the trees for a smoke run."""
    kind, trees, depth = MODELS[name]
    return kind(trees // 100 if smoke else trees, min(depth, 4) if smoke else depth).fit(x, y)


def make_xgboost(trees: int, depth: int) -> Any:  # noqa: ANN401 - as above
    """Return boosted trees of XGBoost."""
    from xgboost import XGBRegressor  # noqa: PLC0415 - only models that are asked for are imported

    return XGBRegressor(n_estimators=trees, max_depth=depth, learning_rate=0.05, random_state=0)


def make_lightgbm(trees: int, depth: int) -> Any:  # noqa: ANN401 - as above
    """Return boosted trees of LightGBM, full up to their depth."""
    from lightgbm import LGBMRegressor  # noqa: PLC0415 - as above

    return LGBMRegressor(
        n_estimators=trees, max_depth=depth, num_leaves=2**depth, learning_rate=0.05, random_state=0, verbose=-1
    )


def make_forest(trees: int, depth: int) -> Any:  # noqa: ANN401 - as above
    """Return a random forest of scikit-learn."""
    from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415 - as above

    return RandomForestRegressor(trees, max_depth=depth, max_features=0.5, n_jobs=-1, random_state=0)


MODELS: dict[str, tuple[Callable[[int, int], Any], int, int]] = {
    "xgboost-500x6": (make_xgboost, 500, 6),
    "xgboost-100x10": (make_xgboost, 100, 10),
    "lightgbm-500x6": (make_lightgbm, 500, 6),
    "lightgbm-100x10": (make_lightgbm, 100, 10),
    "forest-200x12": (make_forest, 200, 12),
}
"""How each model is made, its number of trees and their depth."""


def methods(
    name: str,
    model: Any,  # noqa: ANN401 - as above
    background: Rows | None,
    peers: Sequence[str],
    device: str,
) -> list[tuple[str, float, Method]]:
    """Return what is timed, ours and the packages that compute the same game, and the most rows for which it is."""
    import fwshapley as fw  # noqa: PLC0415 - after the options are parsed
    from fwshapley.trees import TreeExplainer  # noqa: PLC0415 - as above

    nine = [fw.Shapley(), *fw.semivalues.FEASIBLE_SET]
    ours = TreeExplainer(model, background, device=device)

    def explain(rows: Rows, weights: Any = None) -> Any:  # noqa: ANN401 - semivalues, and what the package returns
        return TreeExplainer(ours.ensemble, background, device=device).explain(rows, weights=weights)

    timed: list[tuple[str, float, Method]] = [
        ("fwshapley, Shapley", math.inf, explain),
        ("fwshapley, nine weightings", math.inf, partial(explain, weights=nine)),
        ("fwshapley, Shapley, tables kept", FEW_ROWS, ours.explain),
    ]
    if "shap" in peers:
        import shap  # noqa: PLC0415 - optional

        game = "tree_path_dependent" if background is None else "interventional"
        # shap takes 100 rows of an array; a masker says how many
        data = None if background is None else shap.maskers.Independent(background, max_samples=len(background))
        theirs = shap.TreeExplainer(model, data, feature_perturbation=game)
        timed.append(("shap", math.inf, lambda rows: theirs.shap_values(rows, check_additivity=False)))
    if "woodelf" in peers:
        import pandas as pd  # noqa: PLC0415 - woodelf takes tables
        import woodelf  # noqa: PLC0415 - optional

        frame = None if background is None else pd.DataFrame(background)

        def explain_by_woodelf(rows: Rows) -> Any:  # noqa: ANN401 - as above
            return woodelf.WoodelfExplainer(model, frame).shap_values(pd.DataFrame(rows))

        timed.append(("woodelf", math.inf, explain_by_woodelf))
    if "xgboost" in peers and background is None and name.startswith("xgboost"):
        import xgboost  # noqa: PLC0415 - optional

        booster = model.get_booster()

        def explain_by_xgboost(rows: Rows) -> Any:  # noqa: ANN401 - as above
            return booster.predict(xgboost.DMatrix(rows), pred_contribs=True)

        timed.append(("xgboost", math.inf, explain_by_xgboost))
    return timed


def measure(
    explain: Method, sizes: Sequence[int], seed: int, *, trials: Sequence[int], repeat_seconds: float, limit: float
) -> Iterator[Cell]:
    """Time explanations of more and more rows; those that would take longer than the limit are extrapolated.

    Args:
        explain: what is timed.
        sizes: numbers of rows, from the smallest on.
        seed: of the rows.
        trials: numbers of rows that are timed before any prediction, unless one row tells that they take too long.
        repeat_seconds: time for repetitions of a run.
        limit: seconds that a run may take.
    """
    if not sizes:
        return
    first = time_of(explain, draw_table(1, seed + 3)[0])
    few = [1, *(rows for rows in trials if rows * first <= limit)]
    times = {rows: [time_of(explain, draw_table(rows, seed + 2)[0])] for rows in (few if len(few) > 1 else [1, 2])}
    for rows in sizes:
        while (more := MORE * max(times)) < rows:
            if predict(times, more) > max(limit, 1.5 * times[max(times)][0]):
                break
            times[more] = [time_of(explain, draw_table(more, seed + 2)[0])]
        is_measured = rows in times or predict(times, rows) <= limit
        if is_measured:
            times[rows] = repeat(explain, draw_table(rows, seed + 2)[0], repeat_seconds)
        runs = times[rows if is_measured else max(times)]
        yield {
            "rows": rows,
            "seconds": statistics.median(runs) if is_measured else predict(times, rows),
            "extrapolated_from": None if is_measured else max(times),
            "runs": len(runs),
            "fastest": min(runs),
            "slowest": max(runs),
        }


def predict(times: Mapping[int, Sequence[float]], rows: int) -> float:
    """Return the time for some rows, on the line through the times of the two largest measured numbers of rows.

    A call takes some time for any number of rows, so times do not grow in proportion to the rows.
    """
    fewer, most = sorted(times)[-2:]
    seconds = statistics.median(times[most])
    slope = (seconds - statistics.median(times[fewer])) / (most - fewer)
    return seconds + max(slope, 0.0) * (rows - most)


def repeat(explain: Method, x: Rows, seconds: float) -> list[float]:
    """Return the seconds of each of several runs."""
    times = [time_of(explain, x)]
    while sum(times) < seconds and len(times) < MOST_REPEATS:
        times.append(time_of(explain, x))
    return times


def is_installed(package: str) -> bool:
    """Whether a distribution is installed; XGBoost comes as one of two."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def time_of(explain: Method, x: Rows) -> float:
    """Seconds that an explanation takes."""
    with contextlib.redirect_stdout(None), contextlib.redirect_stderr(io.StringIO()):  # woodelf prints its progress
        before = time.perf_counter()
        explain(x)
        return time.perf_counter() - before


def draw(cells: Sequence[Cell], model: str) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Draw times of a model against rows: a panel for the path-dependent game, and one for the other, by background."""
    from fwshapley.plots import COLORS, new_figure  # noqa: PLC0415 - matplotlib is optional

    names = list(dict.fromkeys(cell["method"] for cell in cells))
    backgrounds = [
        background for background in (0, 10, 1_000) if any(cell["background"] == background for cell in cells)
    ]
    figure = new_figure(width=4.4 * len(backgrounds), height=3.4)
    panels = figure.subplots(1, len(backgrounds), sharey=True, squeeze=False)[0]
    for axes, background in zip(panels, backgrounds, strict=True):
        for name, color in zip(names, COLORS, strict=False):
            points = [
                cell
                for cell in cells
                if (cell["model"], cell["background"], cell["method"]) == (model, background, name)
            ]
            measured = [cell for cell in points if cell["extrapolated_from"] is None]
            axes.loglog([cell["rows"] for cell in points], [cell["seconds"] for cell in points], "--", color=color)
            axes.loglog(
                [cell["rows"] for cell in measured],
                [cell["seconds"] for cell in measured],
                "o-",
                color=color,
                label=name,
            )
        axes.set_title(f"background of {background:,} rows" if background else "path-dependent", fontsize="medium")
        axes.set_xlabel("explained rows")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("seconds (dashed: extrapolated)")
    panels[-1].legend(frameon=False, fontsize="small")
    return figure
