"""Time of exact values of tree ensembles: both games, one weighting and nine, beside shap, woodelf and XGBoost.

Models are fitted to made data of 30 columns; nothing but the explanation is timed, after a warm-up on other rows that
compiles. Every time is the median of as many runs as fit into two seconds; cells that would take longer than `--limit`
seconds are extrapolated from fewer rows and marked. One run measures:

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
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.options import ExperimentParser

COLUMNS = 30
FITTED_ROWS = 20_000
REPEAT_SECONDS, MOST_REPEATS = 2.0, 20
ROWS = [1, 1_000, 10_000, 1_000_000]
BACKGROUNDS = [0, 1, 100, 1_000, 100_000]
PEERS = ["shap", "woodelf", "xgboost"]
PACKAGES = ["numba", "scikit-learn", "xgboost", "xgboost-cpu", "lightgbm", "shap", "woodelf-explainer"]
FEWER = 10
"""A cell that takes too long is measured on this fraction of its rows, or on this fraction of those."""

Rows = NDArray[np.float64]
Method = Callable[[Rows], Any]


def main(arguments: argparse.Namespace) -> None:
    """Measure, print, record."""
    from benchmarks.harness.record import record  # noqa: PLC0415 - it loads torch

    started = time.perf_counter()
    seed = arguments.seeds[0]
    name = "tree_speed" if arguments.device == "cpu" else "tree_speed_gpu"
    kept = Path(arguments.out) / f"{name}_cells.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    cells = read_cells(kept)
    x, y = draw_table(FITTED_ROWS if not arguments.smoke else 300, seed)
    for model_name in arguments.models:
        model = fit(model_name, x, y, smoke=arguments.smoke)
        for background in arguments.background:
            stand_in = draw_table(background, seed + 1)[0] if background else None
            for method_name, explain in methods(model_name, model, stand_in, arguments.peers, arguments.device):
                cell = {"model": model_name, "background": background, "method": method_name}
                missing = [rows for rows in sorted(arguments.rows) if key_of(cell | {"rows": rows}) not in cells]
                if missing:
                    for measured in measure(explain, sorted(arguments.rows), seed, limit=arguments.limit):
                        cells[key_of(cell | measured)] = cell | measured
                        append_cell(kept, cell | measured)
    document = {"cells": list(cells.values()), "limit": arguments.limit}
    record(
        name, document, out=arguments.out, seeds=arguments.seeds, started=started,
        packages=[package for package in PACKAGES if is_installed(package)], device=arguments.device,
    )  # fmt: skip
    kept.unlink(missing_ok=True)


Cell = dict[str, Any]


def key_of(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tells a cell from the others."""
    return cell["model"], cell["background"], cell["method"], cell["rows"]


def read_cells(path: Path) -> dict[tuple[Any, ...], Cell]:
    """Return the cells that an interrupted run has measured."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {key_of(cell): cell for cell in map(json.loads, lines)}


def append_cell(path: Path, cell: Cell) -> None:
    """Print and keep a cell."""
    line = json.dumps(cell)
    print(line, flush=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


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
    arguments = parser.parse(options)
    if arguments.smoke:
        arguments.rows, arguments.background = [1, 30], [0, 10]
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
) -> list[tuple[str, Method]]:
    """Return what is timed: ours with one weighting and nine, and the packages that compute the same game."""
    import fwshapley as fw  # noqa: PLC0415 - after the options are parsed
    from fwshapley.trees import TreeExplainer  # noqa: PLC0415 - as above

    nine = [fw.Shapley(), *fw.semivalues.FEASIBLE_SET]
    ours = TreeExplainer(model, background, device=device)

    def explain(rows: Rows) -> Any:  # noqa: ANN401 - what the package returns
        return TreeExplainer(ours.ensemble, background, device=device).explain(rows)

    timed: list[tuple[str, Method]] = [
        ("fwshapley, Shapley", explain),
        (
            "fwshapley, nine weightings",
            lambda rows: TreeExplainer(ours.ensemble, background, device=device).explain(rows, weights=nine),
        ),
        ("fwshapley, Shapley, tables kept", ours.explain),
    ]
    if "shap" in peers:
        import shap  # noqa: PLC0415 - optional

        game = "tree_path_dependent" if background is None else "interventional"
        theirs = shap.TreeExplainer(model, background, feature_perturbation=game)
        timed.append(("shap", lambda rows: theirs.shap_values(rows, check_additivity=False)))
    if "woodelf" in peers:
        import pandas as pd  # noqa: PLC0415 - woodelf takes tables
        import woodelf  # noqa: PLC0415 - optional

        frame = None if background is None else pd.DataFrame(background)
        timed.append(("woodelf", lambda rows: woodelf.WoodelfExplainer(model, frame).shap_values(pd.DataFrame(rows))))
    if "xgboost" in peers and background is None and name.startswith("xgboost"):
        import xgboost  # noqa: PLC0415 - optional

        booster = model.get_booster()
        timed.append(("xgboost", lambda rows: booster.predict(xgboost.DMatrix(rows), pred_contribs=True)))
    return timed


def measure(explain: Method, sizes: Sequence[int], seed: int, *, limit: float) -> Iterator[dict[str, Any]]:
    """Time explanations of more and more rows; those that would take longer than the limit are extrapolated.

    A call takes some time for any number of rows, so that times are extrapolated along a line through two of them.
    """
    time_of(explain, draw_table(1, seed + 3)[0])
    times = {rows: repeat(explain, draw_table(rows, seed + 2)[0]) for rows in (1, 2)}
    for rows in sizes:
        while max(times) < rows:
            feasible = rows
            while feasible > max(times) and extrapolate(times, feasible) > limit:
                feasible //= FEWER
            if feasible <= max(times):
                break
            times[feasible] = repeat(explain, draw_table(feasible, seed + 2)[0])
        runs = times[rows if rows in times else max(times)]
        yield {
            "rows": rows,
            "seconds": statistics.median(runs) if rows in times else extrapolate(times, rows),
            "extrapolated_from": None if rows in times else max(times),
            "runs": len(runs),
            "fastest": min(runs),
            "slowest": max(runs),
        }


def extrapolate(times: Mapping[int, Sequence[float]], rows: int) -> float:
    """Return the time for some rows, on the line through the times of the two largest measured numbers of rows."""
    fewer, more = sorted(times)[-2:]
    seconds = statistics.median(times[more])
    slope = (seconds - statistics.median(times[fewer])) / (more - fewer)
    return seconds + max(slope, 0.0) * (rows - more)


def repeat(explain: Method, x: Rows) -> list[float]:
    """Return the seconds of each of several runs."""
    times = [time_of(explain, x)]
    while sum(times) < REPEAT_SECONDS and len(times) < MOST_REPEATS:
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
