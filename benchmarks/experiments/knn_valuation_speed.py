"""Time and memory of exact nearest-neighbor values, their growth with the data, beside pyDVL.

Points are drawn around ten class centers. Each measurement runs in a process of its own, which gives its peak memory;
times are those of the valuation alone. One run measures:

- 60,000 x 1,000 points, 512 columns, K = 5: Shapley and Beta(4, 1); the matrix product of the distances alone; and
  pyDVL with two jobs, if `--pydvl` names the Python of an environment that has it (it needs numpy < 2).
- The size of SVHN, 73,257 x 26,032; 300,000 x 2,000 points with 64 columns.
- The vote and the soft utility in turns, 300,000 x 2,000 points.
- Growth with the number of points and of references, and the time that a tolerance saves.
- The matrix product and the values in one process, in turns, for 8, 64 and 512 columns; their ratio is what counts.
- The sort of one row of distances on one core, for the same columns.
- Points valued by each other: 200,000 of them by the default sample, and what samples lose (a tenth of the labels is
  wrong): rank correlation with the values by all points, and AUROC of finding the wrong labels.
- With `--million`, a million points, 64 columns: by 10,000 others, and by each other.
- With `--cluster`, the same call on 1, 2 and 4 workers of a local dask cluster, each with one thread.
- With `--shapiq` and the Python of an environment that has shapiq >= 1.5 and scikit-learn, its KNNExplainer.
- With `--faiss` and faiss-cpu in this environment, an approximate index of a million points for weightings that depend
  on few neighbors alone: how long it takes, beside values cut at the same rank, until it finds all of those neighbors.
- On a GPU (`--device cuda`): the size of SVHN, Shapley several times after a warm-up, and Beta(4, 1).

    python benchmarks/run.py knn_valuation_speed --pydvl ../pydvl/bin/python --million --cluster
    python benchmarks/run.py knn_valuation_speed --device cuda
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.options import ROOT, ExperimentParser

K, CLASSES = 5, 10
LOOK_SECONDS = 1.0  # more often would slow it down
SMOKE_SHRINKS = 100
REPEATS = 3
WRONG_SHARE = 0.1


def main(arguments: argparse.Namespace) -> None:
    """Measure, print, draw, record."""
    from benchmarks.harness.figures import save_figure  # noqa: PLC0415 - a measurement, above, must not load torch
    from benchmarks.harness.record import record, recorded  # noqa: PLC0415 - as above

    started = time.perf_counter()
    name = "knn_valuation_speed_gpu" if arguments.device == "cuda" else "knn_valuation_speed"
    if arguments.draw and arguments.device == "cuda":
        raise SystemExit(f"there is nothing to draw of {name}.json: only a CPU's growth is drawn")
    if arguments.draw:
        save_figure(partial(draw, recorded(name, arguments.out)["growth"]), name, arguments)
        return
    results = on_gpu(arguments) if arguments.device == "cuda" else on_cpu(arguments)
    record(
        name, results, out=arguments.out, seeds=arguments.seeds, started=started, packages=["joblib"],
        device=arguments.device,
    )  # fmt: skip
    if "growth" in results:
        save_figure(partial(draw, results["growth"]), name, arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(
        __doc__,
        smoke="a hundredth of the points, and few processes",
        seeds=[0],
        seeds_of="the points",
        single_seed=True,
    )
    parser.add_argument("--pydvl", type=Path, help="Python of an environment with pyDVL and scikit-learn")
    parser.add_argument("--shapiq", type=Path, help="Python of an environment with shapiq >= 1.5 and scikit-learn")
    parser.add_argument("--faiss", action="store_true", help="also measure an approximate index: minutes, and 8 GB")
    parser.add_argument("--million", action="store_true", help="also measure a million points: minutes, and 4 GB")
    parser.add_argument("--cluster", action="store_true", help="also measure 1, 2 and 4 workers of a dask cluster")
    parser.add_device(choices=["cpu", "cuda"], default="cpu")
    parser.add_draw()
    return parser.parse(options)


def on_cpu(arguments: argparse.Namespace) -> dict[str, Any]:
    """All measurements of a CPU."""
    shrink = SMOKE_SHRINKS if arguments.smoke else 1
    tried = {"ratio", "vote", "sort", "index", "each_other", "samples"}  # which a smoke run measures here

    def ask(python: Path | str = sys.executable, repeats: int = 1, **task: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        task = {name: value // shrink if name in ("n", "m") else value for name, value in task.items()}
        task |= {"m": max(task["m"], 2), "seed": arguments.seeds[0]}
        here = arguments.smoke and task["method"] in tried  # a process of its own would mostly load torch
        tried.add(task["method"])
        runs = [measure(task) if here else run_alone(python, task) for _ in range(repeats)]
        found = sorted(runs, key=lambda each: each["seconds"])[repeats // 2]
        row = task | found | {"all_seconds": [each["seconds"] for each in runs]}
        print(json.dumps(row), flush=True)
        return row

    middle: dict[str, Any] = {"n": 60_000, "m": 1_000, "d": 512}
    repeats = 1 if arguments.smoke else REPEATS
    compared = [
        ask(method="product", dtype="float32", repeats=repeats, **middle),
        ask(method="product", dtype="float64", repeats=repeats, **middle),
        ask(method="fwshapley", alpha=1, beta=1, repeats=repeats, **middle),
        ask(method="fwshapley", alpha=4, beta=1, repeats=repeats, **middle),
    ]
    if arguments.pydvl:
        compared.append(ask(arguments.pydvl, method="pydvl", jobs=2, **middle))
    large = [
        ask(method="fwshapley", alpha=1, beta=1, n=73_257, m=26_032, d=512),
        ask(method="fwshapley", alpha=1, beta=1, n=300_000, m=2_000, d=64),
        ask(method="fwshapley", alpha=1, beta=1, n=73_257, m=1_000, d=512, utility="vote"),
    ]
    sizes: dict[str, Any] = {"method": "fwshapley", "alpha": 1, "beta": 1, "d": 64}
    powers = range(2 if arguments.smoke else 6)
    growth = {
        "n": [ask(**sizes, n=10_000 * 2**power, m=500) for power in powers],
        "m": [ask(**sizes, n=40_000, m=250 * 2**power) for power in powers],
    }
    cut = {
        f"Beta(1, {beta})": [
            ask(method="fwshapley", alpha=1, beta=beta, n=60_000, m=1_000, d=64, tolerance=tolerance)
            for tolerance in ((1e-4,) if arguments.smoke else (0.0, 1e-6, 1e-4))
        ]
        for beta in (1, 4)
    }
    results: dict[str, Any] = {"compared": compared, "large": large, "growth": growth, "tolerance": cut}
    results["ratios"] = [
        ask(method="ratio", n=73_257, m=2_048, d=d) for d in ((64,) if arguments.smoke else (8, 64, 512))
    ]
    results["vote"] = [ask(method="vote", n=300_000, m=2_000, d=64)]
    results["sort"] = [
        ask(method="sort", n=73_257, m=64, d=d, repeats=repeats) for d in ((64,) if arguments.smoke else (8, 64, 512))
    ]
    results["each_other"] = [ask(method="each_other", n=200_000, m=0, d=64)]
    results["samples"] = [ask(method="samples", n=20_000, m=0, d=d) for d in ((64,) if arguments.smoke else (8, 64))]
    if arguments.million:
        results["large"].append(ask(method="fwshapley", alpha=1, beta=1, n=1_000_000, m=10_000, d=64))
        results["each_other"].append(ask(method="each_other", n=1_000_000, m=0, d=64))
    if arguments.faiss:
        results["index"] = [ask(method="index", n=1_000_000, m=1_000, d=d) for d in (64, 512)]
    if arguments.cluster:
        counts = (1,) if arguments.smoke else (1, 2, 4)
        results["cluster"] = [ask(method="cluster", n=60_000, m=4_000, d=64, workers=count) for count in counts]
    if arguments.shapiq:
        results["shapiq"] = [ask(arguments.shapiq, method="shapiq", **(middle | {"m": 20}))]
    return results


def on_gpu(arguments: argparse.Namespace) -> dict[str, Any]:
    """SVHN's size: Shapley, several times after a warm-up, and Beta(4, 1)."""
    import torch  # noqa: PLC0415 - as in `measure`

    import fwshapley as fw  # noqa: PLC0415 - as in `measure`

    shrink = SMOKE_SHRINKS if arguments.smoke else 1
    size = {"n": 73_257 // shrink, "m": 26_032 // shrink, "d": 512}
    data = points(**size, seed=arguments.seeds[0])

    def ask(weights: fw.Semivalue) -> dict[str, Any]:
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
        before = time.perf_counter()
        found = fw.value_neighbors(
            data[0], data[1], data[2:], k=K, weights=weights, device=arguments.device, progress=False
        )
        seconds = time.perf_counter() - before
        megabytes = torch.cuda.max_memory_allocated() / 2**20
        row = {"weights": str(weights), "seconds": seconds, "gpu_mb": megabytes, "sum": float(found.values.sum())}
        print(json.dumps(row), flush=True)
        return size | row

    return {
        "svhn": [ask(fw.Shapley()) for _ in range(1 + REPEATS)],
        "svhn, Beta(4, 1)": [ask(fw.Beta(4, 1))],
    }


def run_alone(python: Path | str, task: dict[str, Any]) -> dict[str, Any]:
    """Run one measurement in a process of its own; measure the memory of it and of its children."""
    command = [str(python), "-W", "ignore", "-m", f"benchmarks.experiments.{Path(__file__).stem}", json.dumps(task)]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": paths}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:  # noqa: S603 - this script
        peak = 0.0
        while running.poll() is None:
            peak = max(peak, megabytes_of(running.pid))
            with suppress(subprocess.TimeoutExpired):
                running.wait(LOOK_SECONDS)
        out = running.stdout.read() if running.stdout else ""
    if running.returncode:
        sys.exit(f"a measurement failed: {shlex.join(command)}")
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found | {"peak_mb": round(max(peak, found["peak_mb"]))}


def megabytes_of(process: int) -> float:
    """Memory of a process and its descendants; what they share counts once."""
    import psutil  # noqa: PLC0415 - pyDVL's environment need not have it

    total = 0.0
    try:
        first = psutil.Process(process)
        for each in (first, *first.children(recursive=True)):
            total += each.memory_full_info().pss / 2**20
    except psutil.Error:  # it has just ended
        pass
    return total


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Seconds and peak memory of one method; each imports what it needs, so that memory is its own."""
    data = points(task["n"], task["m"], task["d"], task["seed"])
    run = METHODS[task["method"]](task, *data)
    before = time.perf_counter()
    found = run()
    seconds = time.perf_counter() - before
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    rest = found if isinstance(found, dict) else {"sum": found}
    return {"seconds": round(seconds, 3), "peak_mb": round(megabytes)} | rest


def points(
    n: int, m: int, d: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """Draw points around class centers, which have half a deviation in each column: n to value, m for reference."""
    generator = np.random.default_rng(seed)
    centers = generator.standard_normal((CLASSES, d), dtype=np.float32) / 2
    y = generator.integers(0, CLASSES, n + m)
    x = generator.standard_normal((n + m, d), dtype=np.float32)
    x += centers[y]
    return x[:n], y[:n], x[n:], y[n:]


def multiply(task: dict[str, Any], x: Any, y: Any, x_reference: Any, y_reference: Any) -> Callable[[], float]:  # noqa: ANN401 - arrays
    """Return the matrix product of all points with all references, in blocks."""
    del y, y_reference
    points, references = x.astype(task["dtype"]), x_reference.astype(task["dtype"])

    def run() -> float:
        return float(sum((references[row : row + 256] @ points.T)[0, 0] for row in range(0, len(references), 256)))

    return run


def value(task: dict[str, Any], x: Any, y: Any, x_reference: Any, y_reference: Any) -> Callable[[], float]:  # noqa: ANN401 - arrays
    """Our valuation, ready to run."""
    import fwshapley as fw  # noqa: PLC0415 - pyDVL's environment does not have it

    weights = fw.Beta(task.get("alpha", 1), task.get("beta", 1))
    options = {name: task[name] for name in ("utility", "tolerance") if name in task}

    def run() -> float:
        found = fw.value_neighbors(x, y, (x_reference, y_reference), k=K, weights=weights, progress=False, **options)
        return float(found.values.sum())

    return run


def compare(task: dict[str, Any], *data: Any) -> Callable[[], dict[str, Any]]:  # noqa: ANN401 - arrays
    """Return our valuation and the products, in turns after a warm-up; seconds are those of the valuation."""
    return in_turns(
        {
            "float32": multiply(task | {"dtype": "float32"}, *data),
            "float64": multiply(task | {"dtype": "float64"}, *data),
            "seconds": value(task, *data),
        }
    )


def compare_votes(task: dict[str, Any], *data: Any) -> Callable[[], dict[str, Any]]:  # noqa: ANN401 - arrays
    """Return valuations by the vote and by the soft utility, in turns after a warm-up; seconds are of the vote."""
    return in_turns({"soft": value(task, *data), "seconds": value(task | {"utility": "vote"}, *data)})


def in_turns(runs: dict[str, Callable[[], float]]) -> Callable[[], dict[str, Any]]:
    """Return what times several runs, and the ratios of the one called seconds to the others."""

    def run() -> dict[str, Any]:
        for one in runs.values():
            one()
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(REPEATS):
            for name, one in runs.items():
                times[name].append(seconds_of(one))
        middle = {name: float(np.median(found)) for name, found in times.items()}
        ratios = {f"ratio_{name}": round(middle["seconds"] / middle[name], 2) for name in runs if name != "seconds"}
        return {name: round(found, 3) for name, found in middle.items()} | ratios

    return run


def seconds_of(run: Callable[[], Any]) -> float:
    """Seconds that a run takes."""
    before = time.perf_counter()
    run()
    return time.perf_counter() - before


def sort_rows(task: dict[str, Any], x: Any, y: Any, x_reference: Any, y_reference: Any) -> Callable[[], dict[str, Any]]:  # noqa: ANN401 - arrays
    """Sort rows of distances on one core, after a warm-up."""
    del task, y, y_reference
    import torch  # noqa: PLC0415 - as in `value`

    from fwshapley.valuation.knn import distances  # noqa: PLC0415 - as above
    from fwshapley.valuation.knn.loops.radix_sort import order_nearest  # noqa: PLC0415 - as above
    from fwshapley.valuation.knn.workspace import Scratch  # noqa: PLC0415 - as above

    places = distances.place(x, x_reference, "euclidean")
    products = (torch.from_numpy(places.reference), torch.from_numpy(places.factor), places.scale)
    rows = distances.whole_keys(distances.distances_by_product(*products)).view(torch.float64).numpy()
    scratch, order = Scratch.of(len(x)), np.empty(len(x), dtype=np.int64)

    def sort() -> None:
        for row in rows:
            order_nearest(row, scratch, order)

    def run() -> dict[str, Any]:
        sort()
        return {"ms_per_row": round(min(seconds_of(sort) for _ in range(REPEATS)) / len(rows) * 1e3, 4)}

    return run


def search_index(task: dict[str, Any], *data: Any) -> Callable[[], dict[str, Any]]:  # noqa: ANN401 - arrays
    """Search an approximate index for the neighbors that weightings depend on, beside values cut after their rank."""
    del task
    x, y, x_reference, y_reference = data
    import faiss  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - only where it is needed
    import torch  # noqa: PLC0415 - as in `value`

    import fwshapley as fw  # noqa: PLC0415 - as in `value`
    from fwshapley.valuation.knn.closed_forms import make_form  # noqa: PLC0415 - as above

    few = x_reference[:50]
    counts = torch.bincount(torch.from_numpy(y))
    exact, coarse = faiss.IndexFlatL2(x.shape[1]), faiss.IndexFlatL2(x.shape[1])
    exact.add(x)
    lists = max(min(1024, len(x) // 64), 1)
    index = faiss.IndexIVFFlat(coarse, x.shape[1], lists)

    def build() -> None:
        index.train(x[: 64 * lists])
        index.add(x)

    def value_once(weights: fw.Semivalue, points: int) -> None:
        reference = (x_reference, y_reference)
        fw.value_neighbors(x[:points], y[:points], reference, k=K, weights=weights, tolerance=1e-5, progress=False)

    def run() -> dict[str, Any]:
        value_once(fw.Banzhaf(), min(len(x), 10_000))  # a warm-up
        built, rows = seconds_of(build), []
        for weights in (fw.Banzhaf(), fw.Beta(1, 2)):
            ranks = make_form("soft", [weights], counts, K).cut(1e-5)[0]
            nearest = np.sort(exact.search(few, ranks)[1])
            exact_seconds = seconds_of(partial(value_once, weights, len(x)))
            for probes in (8, 32, 128, 512):
                index.nprobe = probes
                right = float((np.sort(index.search(few, ranks)[1]) == nearest).all(1).mean())
                searched = seconds_of(partial(index.search, x_reference, ranks))
                row = {"weights": str(weights), "ranks": ranks, "values": round(exact_seconds, 3), "probes": probes}
                rows.append(row | {"build": round(built, 3), "search": round(searched, 3), "all_right": right})
        return {"rows": rows}

    return run


def value_each_other(task: dict[str, Any], x: Any, y: Any, *_: Any) -> Callable[[], dict[str, Any]]:  # noqa: ANN401 - arrays
    """Points valued by each other, as by default; a tenth of the labels is wrong."""
    noisy, wrong = mislabel(y, task["seed"])

    def run() -> dict[str, Any]:
        import fwshapley as fw  # noqa: PLC0415 - as below

        found = fw.value_neighbors(x, noisy, k=K)
        return {"references": found.references, "auroc": auroc(found, wrong)}

    return run


def value_by_samples(task: dict[str, Any], x: Any, y: Any, *_: Any) -> Callable[[], dict[str, Any]]:  # noqa: ANN401 - arrays
    """Points valued by each other and by samples of themselves: what is lost."""
    noisy, wrong = mislabel(y, task["seed"])

    def run() -> dict[str, Any]:
        from scipy.stats import spearmanr  # noqa: PLC0415 - not in pyDVL's environment

        import fwshapley as fw  # noqa: PLC0415 - as below

        weightings: list[fw.Semivalue] = [fw.Shapley(), fw.Beta(4, 1), fw.Beta(16, 1)]
        rows = []
        whole = fw.value_neighbors(x, noisy, k=K, weights=weightings, progress=False)
        for share in (1, 2, 5, 20, 100):
            count = max(len(x) * share // 100, 2)
            sampled = fw.value_neighbors(x, noisy, k=K, weights=weightings, n_references=count, progress=False)
            for weights in weightings:
                found = sampled.of(weights)
                agreement = float(spearmanr(found.values.numpy(), whole.of(weights).values.numpy()).statistic)
                row = {"weights": str(weights), "share": share / 100, "rank_correlation": round(agreement, 4)}
                rows.append(row | {"auroc": auroc(found, wrong)})
        return {"rows": rows}

    return run


def mislabel(y: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return labels of which a tenth is another one, and which they are."""
    generator = np.random.default_rng(seed + 1)
    wrong = generator.random(len(y)) < WRONG_SHARE
    return np.where(wrong, (y + generator.integers(1, CLASSES, len(y))) % CLASSES, y), wrong


def auroc(found: Any, wrong: NDArray[np.bool_]) -> float:  # noqa: ANN401 - a Valuation, which pyDVL's environment does not have
    """How well low values find the wrong labels."""
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415 - only where it is needed

    return round(float(roc_auc_score(wrong, -found.values.numpy())), 4)


def value_on_cluster(task: dict[str, Any], *data: Any) -> Callable[[], dict[str, Any]]:  # noqa: ANN401 - arrays
    """Our valuation by workers of a dask cluster, after a warm-up of each; seconds are those of the valuation."""

    def run() -> dict[str, Any]:
        import distributed  # noqa: PLC0415 - only where it is needed
        from joblib import parallel_config  # noqa: PLC0415 - as above

        where: Any = distributed  # which is typed in part
        once = value(task | {"alpha": 1, "beta": 1}, *data)
        with (
            where.LocalCluster(n_workers=task["workers"], threads_per_worker=1, dashboard_address=None) as cluster,
            where.Client(cluster) as client,
            parallel_config("dask"),
        ):
            once()
            before = time.perf_counter()
            total = once()
            seconds = round(time.perf_counter() - before, 3)
            tasks = client.run(lambda dask_worker: dask_worker.state.executed_count)
        return {"seconds": seconds, "sum": total, "tasks": sorted(tasks.values())}

    return run


def value_by_shapiq(task: dict[str, Any], x: Any, y: Any, x_reference: Any, y_reference: Any) -> Callable[[], float]:  # noqa: ANN401 - arrays
    """KNN-Shapley of shapiq, ready to run: an explainer for each class, a call for each reference."""
    del task
    from shapiq.explainer.nn import KNNExplainer  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - see above
    from sklearn.neighbors import KNeighborsClassifier  # noqa: PLC0415 - see above

    model = KNeighborsClassifier(K).fit(x, y)
    explainers = [KNNExplainer(model, class_index=label) for label in range(CLASSES)]

    def run() -> float:
        total = np.zeros(len(x))
        for point, label in zip(x_reference, y_reference, strict=True):
            total += explainers[label].explain_function(point).get_n_order_values(1)
        return float(total.sum() / len(x_reference))

    return run


def value_by_pydvl(task: dict[str, Any], x: Any, y: Any, x_reference: Any, y_reference: Any) -> Callable[[], float]:  # noqa: ANN401 - arrays
    """KNN-Shapley of pyDVL, ready to run."""
    from joblib import parallel_config  # noqa: PLC0415 - see above
    from pydvl.valuation import Dataset, KNNShapleyValuation  # noqa: PLC0415 - see above
    from sklearn.neighbors import KNeighborsClassifier  # noqa: PLC0415 - see above

    valuation = KNNShapleyValuation(KNeighborsClassifier(K), Dataset(x_reference, y_reference), progress=False)

    def run() -> float:
        with parallel_config(n_jobs=task["jobs"]):
            return float(valuation.fit(Dataset(x, y)).result.values.sum())

    return run


METHODS: dict[str, Callable[..., Callable[[], Any]]] = {
    "product": multiply,
    "ratio": compare,
    "vote": compare_votes,
    "sort": sort_rows,
    "index": search_index,
    "fwshapley": value,
    "each_other": value_each_other,
    "samples": value_by_samples,
    "cluster": value_on_cluster,
    "pydvl": value_by_pydvl,
    "shapiq": value_by_shapiq,
}


def draw(growth: dict[str, list[dict[str, Any]]]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Seconds over the number of points and of references, on logarithmic scales."""
    from fwshapley.plots import COLORS, new_figure  # noqa: PLC0415 - as above

    figure = new_figure(width=8, height=3.2)
    for axes, (name, rows), what in zip(
        figure.subplots(1, 2),
        growth.items(),
        ("training points (500 references)", "references (40,000 points)"),
        strict=True,
    ):
        sizes, seconds = [row[name] for row in rows], [row["seconds"] for row in rows]
        axes.loglog(sizes, seconds, "o-", color=COLORS[0], label="measured")
        axes.loglog(sizes, [seconds[-1] * size / sizes[-1] for size in sizes], "--", color="gray", label="linear")
        axes.set_xticks(sizes[::2], [f"{size:,}" for size in sizes[::2]])
        axes.minorticks_off()
        axes.set_xlabel(what)
        axes.set_ylabel("seconds")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(visible=True, alpha=0.25)
        axes.legend(frameon=False)
    return figure


if __name__ == "__main__":  # one measurement, in a process of its own
    print(json.dumps(measure(json.loads(sys.argv[1]))))
