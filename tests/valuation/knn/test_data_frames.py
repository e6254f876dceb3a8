"""DataFrames of more than numbers are valued as `fwshapley value` values a file of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import fwshapley as fw
from fwshapley.tables.labeled_table import read_table
from fwshapley.valuation import suggest_labels, write_valuation_report

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "a": RNG.normal(size=60),
        "town": RNG.choice(["Rome", "Oslo", "Bonn"], 60),
        "flag": RNG.random(60) < 0.5,
        "day": pd.date_range("2024-01-01", periods=60),
        "id": np.arange(60),
    }
)
Y = np.where(TABLE.a + (TABLE.town == "Rome") > 0.5, "tea", "coffee")
TABLE.loc[3, "a"] = np.nan
TABLE.loc[5, "town"] = None
NUMBERS = TABLE[["a", "id"]].fillna(0)


def value(x: Any, **options: Any) -> fw.Valuation:  # noqa: ANN401 - any table and options
    return fw.value_neighbors(x, Y, progress=False, device="cpu", **options)


def test_a_data_frame_has_the_values_of_a_csv_file_of_it(tmp_path: Path) -> None:
    TABLE.assign(kind=Y).to_csv(tmp_path / "table.csv", index=False)
    table = read_table(tmp_path / "table.csv", "kind")
    valuation = value(TABLE)
    assert torch.equal(valuation.values, value(table.x).values)
    notes = [note[:1].upper() + note[1:] for note in valuation.provenance["columns"]]
    assert notes == list(table.notes)
    assert "Left out: id (it numbers the rows)" in notes


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.astype({"town": "category"}),
        lambda table: table.astype({"a": "Float64", "town": "string", "flag": "boolean"}),
        lambda table: table.astype({"a": str, "day": str}),
        lambda table: table.astype(object),
        lambda table: table.assign(day=table["day"].dt.date),
        lambda table: table.set_index(pd.Index([7] * 60)),
    ],
    ids=["category", "nullable", "as text", "objects", "dates", "labels"],
)
def test_values_do_not_depend_on_how_pandas_stores_a_column(change: Any) -> None:  # noqa: ANN401 - a function
    assert torch.equal(value(change(TABLE)).values, value(TABLE).values)


def test_numbers_alone_are_used_as_they_are_unless_scaling_is_asked_for() -> None:
    assert torch.equal(value(NUMBERS).values, value(NUMBERS.to_numpy()).values)
    assert "columns" not in value(NUMBERS).provenance
    flags = NUMBERS.assign(flag=TABLE.flag)
    for stored in (flags, flags.astype({"a": "Float64", "id": "Int64", "flag": "boolean"}), flags.astype(object)):
        assert torch.equal(value(stored).values, value(flags.to_numpy(float)).values)
    scaled = value(NUMBERS, scale=True)
    standardized = (NUMBERS[["a"]] - NUMBERS.a.mean()) / NUMBERS.a.std(ddof=0)
    assert torch.allclose(scaled.values, value(standardized.to_numpy()).values)
    with pytest.raises(ValueError, match=r"x must be finite.*or pass scale=True, which fills in medians"):
        value(TABLE[["a", "id"]].astype({"a": "Float64"}))
    assert len(value(TABLE[["a", "id"]], scale=True)) == 60
    with pytest.raises(TypeError, match="scale=True prepares the columns of a DataFrame, and x is a ndarray"):
        value(NUMBERS.to_numpy(), scale=True)
    with pytest.raises(ValueError, match="x must be numbers"):
        value(TABLE, scale=False)


def test_other_points_are_put_on_the_scale_of_the_training_points() -> None:
    train, other = slice(0, 40), slice(40, 60)
    shuffled = TABLE[other][["id", "town", "flag", "day", "a"]].assign(more="?")
    valuator = fw.KNNValuator(progress=False, device="cpu").fit(TABLE[train], Y[train], reference=(shuffled, Y[other]))
    assert valuator.n_features_in_ == 5
    x = valuator.problem_.places.center + np.concatenate([valuator.problem_.points, valuator.problem_.reference])
    expected = fw.value_neighbors(x[:40], Y[train], reference=(x[40:], Y[other]), progress=False, device="cpu")
    assert torch.allclose(valuator.values_, expected.values)
    again = valuator.value(TABLE[train][:3], Y[:3])
    assert again.provenance["columns"] == valuator.result_.provenance["columns"]
    odd = TABLE[:2].assign(town="Paris")  # equally far from all towns
    assert bool(valuator.value(odd, Y[:2]).values.isfinite().all())
    with pytest.raises(ValueError, match="x must have the columns of the training points, but lacks 'town'"):
        valuator.value(TABLE.drop(columns="town"), Y)
    with pytest.raises(TypeError, match="x must be a DataFrame, as the training points are"):
        valuator.value(x[:3], Y[:3])
    with pytest.raises(ValueError, match="column a must contain numbers, got x"):
        valuator.value(TABLE.assign(a="x"), Y)


def test_suggestions_and_reports_take_the_same_table(tmp_path: Path) -> None:
    valuation = value(NUMBERS, scale=True)
    assert suggest_labels(TABLE, Y, points=[0, 1]).labels.shape == (2,)
    write_valuation_report(valuation, tmp_path / "report.html", x=NUMBERS)
    unscaled = suggest_labels(NUMBERS, Y, points=list(range(60)))
    scaled = suggest_labels(NUMBERS, Y, points=list(range(60)), scale=True)
    assert not torch.equal(unscaled.neighbors, scaled.neighbors)


def test_a_table_without_a_column_to_compare_by_is_refused() -> None:
    with pytest.raises(ValueError, match=r"x has no column to compare its rows by.*same: it is the same in every row"):
        value(pd.DataFrame({"same": ["u"] * 60}))
    with pytest.raises(ValueError, match="x has several columns 'town'"):
        value(pd.concat([TABLE, TABLE[["town"]]], axis=1))
