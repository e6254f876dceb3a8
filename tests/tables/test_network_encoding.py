from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pandas.testing import assert_frame_equal
from torch.testing import assert_close

from fwshapley.tables.network_encoding import MAX_CATEGORIES, TableSchema, describe_table
from fwshapley.tables.unusable_entries import UnusableEntry, mark_usable

RNG = np.random.default_rng(0)
STAMPS = np.array([0, 1, 2, 60, 3600, 86_400, 604_800])

EXACT: dict[str, pd.Series] = {
    "int8": pd.Series([-128, 0, 127], dtype="int8"),
    "int16": pd.Series([-32_768, 5, 32_767], dtype="int16"),
    "int32": pd.Series([1, 2, 3], dtype="int32"),
    "int32 sentinel": pd.Series([2**31 - 1, -(2**31), 0], dtype="int32"),
    "int64": pd.Series([10**6, -3, 7]),
    "uint8": pd.Series([0, 255, 3], dtype="uint8"),
    "uint32 sentinel": pd.Series([2**32 - 1, 0, 1], dtype="uint32"),
    "uint64": pd.Series([0, 9, 3], dtype="uint64"),
    "seconds since 1970": pd.Series(1_700_000_000 + STAMPS),
    "milliseconds since 1970": pd.Series(1_700_000_000_000 + STAMPS),
    "seconds as floats": pd.Series(1.7e9 + STAMPS),
    "float32": pd.Series([0.1, -3.25, 1e6], dtype="float32"),
    "float of halves": pd.Series([0.5, 1.5, -8.0]),
    "missing float": pd.Series([0.5, np.nan, -8.0]),
    "bool": pd.Series([True, False, True]),
    "bool of one kind": pd.Series([True, True]),
    "Int64": pd.Series([1, None, 3], dtype="Int64"),
    "Int64 far from zero": pd.Series([1_700_000_000_001, None, 1_700_000_000_004], dtype="Int64"),
    "UInt8": pd.Series([1, None, 255], dtype="UInt8"),
    "Float64": pd.Series([0.5, None, 3.0], dtype="Float64"),
    "boolean": pd.Series([True, None, False], dtype="boolean"),
    "text": pd.Series(["b", "a", "b", "München"]),
    "missing text": pd.Series(["b", None, "a"]),
    "string": pd.Series(["b", "a", "c"], dtype="string"),
    "missing string": pd.Series(["b", None, "c"], dtype="string"),
    "object": pd.Series(["b", "a"], dtype=object),
    "object with None": pd.Series(["b", None, "a"], dtype=object),
    "object with NaN": pd.Series(["b", np.nan, "a"], dtype=object),
    "object with flags": pd.Series([True, None, False], dtype=object),
    "object of several kinds": pd.Series(["b", 3, 2.5], dtype=object),
    "nothing at all": pd.Series([None, None], dtype=object),
    "category": pd.Series(pd.Categorical(["b", "a", "b"])),
    "category of objects": pd.Series(["b", "a"], dtype=object).astype("category"),
    "ordered category": pd.Series(pd.Categorical(["low", "high"], ["low", "mid", "high"], ordered=True)),
    "missing category": pd.Series(pd.Categorical(["b", None, "a"])),
    "category of numbers": pd.Series(pd.Categorical([3, 1, 3])),
    "category of small numbers": pd.Series(np.array([3, 1], dtype="int8")).astype("category"),
    "missing category of numbers": pd.Series(pd.Categorical([3, None, 1])),
    "category of fractions": pd.Series(pd.Categorical([0.5, 1.5])),
    "category of flags": pd.Series(pd.Categorical([True, None, False])),
    "days": pd.Series(pd.date_range("1999-12-30", periods=5)),
    "missing day": pd.Series(pd.to_datetime(["2020-01-01", "NaT"])),
    "seconds": pd.Series(pd.date_range("2024-02-29 11:59:58", periods=5, freq="s")).astype("datetime64[s]"),
    "nanoseconds' dtype": pd.Series(pd.date_range("2024-02-29", periods=3)).astype("datetime64[ns]"),
    "the end of time": pd.Series(pd.to_datetime(["9999-12-31", "2020-01-01"])),
    "time zone": pd.Series(pd.date_range("2024-03-30", periods=3, tz="UTC")),
}


def schema_through_json(table: Any) -> TableSchema:  # noqa: ANN401 - a table
    schema = describe_table(table, any_model=True)
    again = TableSchema.from_facts(json.loads(json.dumps(schema.facts())))
    assert again == schema
    return again


def same_again(table: pd.DataFrame) -> pd.DataFrame:
    schema = schema_through_json(table)
    found = schema.decode(schema.encode(table))
    assert isinstance(found, pd.DataFrame)
    return found


@pytest.mark.parametrize("entries", EXACT.values(), ids=EXACT)
def test_a_column_comes_back_as_it_was(entries: pd.Series) -> None:
    table = entries.to_frame("x")
    found = same_again(table)
    assert_frame_equal(found, table)
    assert found["x"].dtype == entries.dtype  # which the frames' comparison takes for granted of categories' own types
    kinds = [type(left) is type(right) for left, right in zip(found["x"], entries, strict=True) if pd.isna(right)]
    assert all(kinds)  # None is not NaN to scikit-learn's encoders


@pytest.mark.parametrize("dtype", ["float32", "float64", "Float64"])
@pytest.mark.parametrize(("middle", "spread"), [(0, 1), (0, 1e-9), (1e6, 1), (1.7e9, 3e5), (1.7e12, 1e3)])
def test_numbers_come_back_up_to_a_millionth_of_their_spread(
    dtype: Literal["float32", "float64", "Float64"], middle: float, spread: float
) -> None:
    table = pd.DataFrame({"x": RNG.normal(middle, spread, 500)}).astype(dtype)
    found = same_again(table)
    assert found.dtypes.equals(table.dtypes)
    difference = (found["x"].astype("float64") - table["x"].astype("float64")).abs().max()
    assert difference <= 1e-6 * table["x"].astype("float64").std()


@pytest.mark.parametrize("freq", ["s", "h", "37min", "D"])
@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_dates_come_back_up_to_a_millionth_of_their_spread(freq: str, zone: str | None) -> None:
    table = pd.DataFrame({"x": pd.date_range("2023-07-01 03:04:05", periods=400, freq=freq, tz=zone)})
    found = same_again(table)
    assert found.dtypes.equals(table.dtypes)
    assert (found["x"] - table["x"]).abs().max() <= 1e-6 * table["x"].std()


def test_a_date_is_told_as_days() -> None:
    table = pd.DataFrame({"x": pd.to_datetime(["1970-01-02 00:00", "1970-01-11 12:00"])})
    assert describe_table(table, any_model=True).encode(table).tolist() == [[1], [10.5]]


def test_one_row_is_a_table() -> None:
    table = pd.DataFrame({name.replace(" ", "_"): entries[:1] for name, entries in EXACT.items()})
    assert_frame_equal(same_again(table), table)


def test_what_a_form_holds() -> None:
    table = pd.DataFrame(
        {
            "age": [30, 40],
            "city": ["Rome", None],
            "income": [1.5, np.nan],
            "grade": pd.Categorical(["a", "b"], list("abc")),
        }
    )
    schema = describe_table(table, any_model=True)
    assert schema.names == ("age", "city", "income", "grade")
    assert schema.kinds.categories == (0, 2, 0, 3)  # a missing category is one too
    assert schema.kinds.gaps == (False, False, True, False)
    expected = torch.tensor([[30, 0, 1.5, 0], [40, 1, torch.nan, 1]], dtype=torch.float64)
    assert_close(schema.encode(table), expected, equal_nan=True)


def test_columns_are_found_by_name_and_others_ignored() -> None:
    table = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": [0.5, 1.5]})
    schema = describe_table(table, any_model=True)
    other = table.assign(extra="?")[["extra", "c", "b", "a"]]
    assert torch.equal(schema.encode(other), schema.encode(table))
    assert torch.equal(
        schema.encode(table.set_index(pd.Index([7, 7]))), schema.encode(table)
    )  # rows are in their order


@pytest.mark.parametrize(
    "labels", [[0, 1], [1.5, "b"], [("a", "x"), ("a", "y")], [True, "b"], list(np.arange(2))], ids=str
)
def test_names_that_are_no_text_come_back_too(labels: list[Any]) -> None:
    table = pd.DataFrame([[1.0, "u"], [2.0, "v"]])
    table.columns = pd.Index(labels)
    schema = schema_through_json(table)
    found = schema.decode(schema.encode(table))
    assert isinstance(found, pd.DataFrame)
    assert found.columns.tolist() == table.columns.tolist()
    assert schema.names == tuple(map(str, table.columns))


def test_names_that_no_file_can_hold_are_refused() -> None:
    table = pd.DataFrame({pd.Timestamp("2020-01-01"): [1.0, 2.0]})
    with pytest.raises(TypeError, match=r"Timestamp.*rename it"):
        describe_table(table, any_model=True)
    assert describe_table(table, any_model=False).names == ("2020-01-01 00:00:00",)  # a module never sees it


@pytest.mark.parametrize(
    "entries",
    [np.array([3, 1, 2]), np.array([True, False, True]), np.array([1.5, 2.5, 1.5]), np.array(["a", "b", "a"])],
)
def test_numpys_scalars_are_categories_as_any(entries: NDArray[Any]) -> None:
    table = pd.DataFrame({"x": pd.Series(list(entries), dtype=object)})
    found = same_again(table)
    assert found["x"].tolist() == entries.tolist()


FITTED = pd.DataFrame(
    {
        "age": [30, 40, 50],
        "gap": [1.0, np.nan, 2.0],
        "city": ["Rome", "Bonn", "Rome"],
        "since": pd.date_range("2020-01-01", periods=3),
        "grade": pd.Categorical(list("aba")),
        "flag": [True, False, True],
    }
)


@pytest.mark.parametrize(
    ("column", "entries", "message"),
    [
        ("age", [1.0, 2.0, np.nan], r"nan in column 'age', row 2, is missing, as no entry .* \(1 in all\)"),
        ("age", [1.0, np.inf, np.inf], r"inf in column 'age', row 1, is not a number \(2 in all\)"),
        ("age", ["1", "old", "2"], "'old' in column 'age', row 1, is not a number"),
        ("age", pd.array([1, 2, None], dtype="Int64"), "<NA> in column 'age', row 2, is missing"),
        ("gap", [1.0, "unknown", None], "'unknown' in column 'gap', row 1, is not a number"),
        ("gap", [1.0, None, np.inf], "inf in column 'gap', row 2, is not a number"),
        ("city", ["Rome", "Bonn", "Oslo"], "'Oslo' in column 'city', row 2, is an unknown category"),
        ("city", ["Rome", None, "Rome"], "nan in column 'city', row 1, is missing"),
        ("grade", pd.Categorical(["a", "z", "b"]), "'z' in column 'grade', row 1, is an unknown category"),
        ("since", pd.to_datetime(["2020-01-01", "NaT", "2020-01-02"]), "NaT in column 'since', row 1, is missing"),
        ("flag", ["yes", True, False], "'yes' in column 'flag', row 0, is an unknown category"),
    ],
)
def test_an_entry_that_cannot_be_is_named(column: str, entries: Any, message: str) -> None:  # noqa: ANN401 - of any kind
    schema = describe_table(FITTED, any_model=True)
    with pytest.raises(ValueError, match=message):
        schema.encode(FITTED.assign(**{column: entries}))


@pytest.mark.parametrize(
    ("column", "entries"),
    [
        ("since", [18262, 18263, 18264]),
        ("since", pd.date_range("2020-01-01", periods=3, tz="UTC")),
        ("age", pd.date_range("2020-01-01", periods=3)),
    ],
)
def test_dates_are_not_taken_for_numbers_nor_numbers_for_dates(column: str, entries: Any) -> None:  # noqa: ANN401 - of any kind
    schema = describe_table(FITTED, any_model=True)
    with pytest.raises(TypeError, match=f"column '{column}' has dtype .*; it was fitted with"):
        schema.encode(FITTED.assign(**{column: entries}))


def test_texts_may_stand_for_dates_as_in_a_csv_file() -> None:
    schema = describe_table(FITTED, any_model=True)
    texts = FITTED.assign(since=["2020-01-01", "2020-01-02", "2020-01-03"])
    assert_close(schema.encode(texts), schema.encode(FITTED), equal_nan=True)
    assert schema.find_unusable(FITTED.assign(since=["2020-01-01", "soon", "2020-01-03"])) == [
        UnusableEntry(1, "since", "soon", "is not a date such as 2024-05-31")
    ]


def test_dates_in_a_column_of_objects_are_dates() -> None:
    schema = describe_table(FITTED, any_model=True)
    assert torch.equal(
        schema.encode(FITTED.astype({"since": object, "age": object})).nan_to_num(), schema.encode(FITTED).nan_to_num()
    )


def test_a_flag_that_was_never_lowered_can_be() -> None:
    schema = describe_table(pd.DataFrame({"x": [True, True]}), any_model=True)
    assert schema.encode(pd.DataFrame({"x": [False, True]})).tolist() == [[0], [1]]


def test_a_column_that_is_missing_or_there_twice_is_named() -> None:
    schema = describe_table(FITTED, any_model=True)
    with pytest.raises(ValueError, match="the table has no column 'city'; it was fitted with age, gap, city"):
        schema.encode(FITTED.drop(columns="city"))
    twice = pd.concat([FITTED, FITTED[["city"]]], axis=1)
    with pytest.raises(ValueError, match="the table has several columns 'city'"):
        schema.encode(twice)
    with pytest.raises(ValueError, match="the table has several columns 'city'"):
        describe_table(twice, any_model=True)
    with pytest.raises(ValueError, match="the table has several columns '0'"):
        describe_table(pd.DataFrame([[1, 2]], columns=[0, "0"]), any_model=True)
    assert torch.equal(  # a column that nobody asks for may be there as often as it likes
        schema.encode(pd.concat([FITTED.assign(more=1), FITTED.assign(more=2)[["more"]]], axis=1)).nan_to_num(),
        schema.encode(FITTED).nan_to_num(),
    )


@pytest.mark.parametrize(
    ("entries", "error", "message"),
    [
        (2 * [f"id {number}" for number in range(MAX_CATEGORIES + 1)], ValueError, "'x' has 1,001 different entries"),
        ([[1], [2]], TypeError, r"column 'x' contains \[1\], which is neither"),
        ([{"a": 1}], TypeError, "column 'x' contains {'a': 1}, which is neither"),
        ([1j, "a"], TypeError, "column 'x' contains 1j, which is neither"),
        (pd.interval_range(0, 2), TypeError, "column 'x' contains Interval"),
        (pd.to_timedelta([1, 2], unit="D"), TypeError, "column 'x' contains Timedelta"),
    ],
    ids=["identifiers", "lists", "dicts", "complex", "intervals", "durations"],
)
def test_columns_that_hold_no_entries_of_a_table_are_refused(
    entries: Any,  # noqa: ANN401 - of any kind
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        describe_table(pd.DataFrame({"x": entries}), any_model=True)


def test_a_table_without_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="the table has no columns"):
        describe_table(pd.DataFrame(index=[1, 2]), any_model=True)


def test_as_many_categories_as_there_may_be() -> None:
    table = pd.DataFrame({"x": 2 * [f"id {number}" for number in range(MAX_CATEGORIES)]})
    assert_frame_equal(same_again(table), table)


@pytest.mark.parametrize("column", ["city", "grade", "flag"])
def test_what_a_module_cannot_take_is_refused(column: str) -> None:
    with pytest.raises(TypeError, match=f"column '{column}' has dtype .*, which a torch module cannot take: encode"):
        describe_table(FITTED[["age", column]], any_model=False)


def test_a_module_takes_no_gaps_and_numbers_as_they_are() -> None:
    with pytest.raises(ValueError, match="column 'gap' has missing entries, which a torch module cannot take"):
        describe_table(FITTED[["age", "gap"]], any_model=False)
    table = pd.DataFrame({"a": [1, 2], "b": pd.array([0.5, 1.5], dtype="Float64"), "stamp": 1.7e9 + np.arange(2)})
    assert torch.equal(
        describe_table(table, any_model=False).encode(table), torch.tensor([[1, 0.5, 1.7e9], [2, 1.5, 1.7e9]])
    )


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
def test_an_array_comes_back_as_double_precision(dtype: str) -> None:
    table = RNG.integers(0, 2, (6, 3)).astype(dtype)
    schema = schema_through_json(table)
    found = schema.decode(schema.encode(table))
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float64
    assert np.array_equal(found, table.astype(np.float64))
    assert schema.names == ("column 0", "column 1", "column 2")
    assert torch.equal(schema.encode(torch.from_numpy(table)), schema.encode(table))
    assert torch.equal(schema.encode(pd.DataFrame(table)), schema.encode(table))  # a DataFrame is an array then


def test_an_array_with_gaps_and_large_numbers_comes_back() -> None:
    table = np.stack([RNG.normal(size=50), 1.7e9 + RNG.uniform(0, 1e5, 50), np.full(50, np.nan)], 1)
    table[3, 0] = np.nan
    schema = schema_through_json(table)
    assert schema.kinds.gaps == (True, False, True)
    found = schema.decode(schema.encode(table))
    assert isinstance(found, np.ndarray)
    assert np.array_equal(np.isnan(found), np.isnan(table))
    np.testing.assert_allclose(found[:, 0], table[:, 0], rtol=1e-6)
    np.testing.assert_allclose(found[:, 1] - 1.7e9, table[:, 1] - 1.7e9, atol=0.1)


def test_an_array_stands_for_a_table_of_numbers_in_the_order_of_its_columns() -> None:
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0], "stamp": 1.7e9 + np.arange(3)})
    schema = describe_table(table, any_model=True)
    assert torch.equal(schema.encode(table.to_numpy()), schema.encode(table))
    with pytest.raises(TypeError, match=r"must be a DataFrame.*city, grade, flag"):
        describe_table(FITTED, any_model=True).encode(np.zeros((2, 6)))


@pytest.mark.parametrize("table", [np.array([["a", "b"]]), np.array([[1, "b"]], dtype=object), [["a"], ["b"]]], ids=str)
def test_an_array_of_text_is_to_be_a_data_frame(table: Any) -> None:  # noqa: ANN401 - no table
    with pytest.raises(TypeError, match=r"must be an array or tensor of numbers, or a DataFrame"):
        describe_table(table, any_model=True)


ENTRIES = {
    "number": st.integers(-1000, 1000) | st.none(),
    "fraction": st.floats(-100, 100, width=16) | st.just(np.nan),
    "text": st.sampled_from(["a", "b", "A", "", " ", "0", "nan", "None"]) | st.none(),
    "flag": st.booleans() | st.none(),
    "day": st.dates().map(pd.Timestamp) | st.none(),
}


@given(st.lists(st.fixed_dictionaries(ENTRIES), min_size=1, max_size=12))
def test_any_table_comes_back_and_rows_that_differ_are_told_apart(entries: list[dict[str, Any]]) -> None:
    table = pd.DataFrame(entries, columns=list(ENTRIES)).astype(
        {"number": "Int64", "fraction": "float64", "text": "string", "flag": "boolean", "day": "datetime64[us]"}
    )
    schema = schema_through_json(table)
    encoded = schema.encode(table)
    found = schema.decode(encoded)
    assert isinstance(found, pd.DataFrame)
    assert_frame_equal(found, table, rtol=1e-6, atol=1e-4)
    told_apart = pd.DataFrame(encoded.numpy()).drop_duplicates()
    assert len(told_apart) == len(table.drop_duplicates())


def test_dates_written_as_texts_are_dates_that_come_back_as_they_were() -> None:
    table = pd.DataFrame({"opened": ["2024-05-31", "2024-06-01", None, "1999-12-31"]})
    schema = describe_table(table, any_model=True)
    assert schema.kinds.categories == (0,)
    days = schema.encode(table)[:, 0]
    assert float(days[1] - days[0]) == 1
    back = schema.decode(schema.encode(table))
    assert isinstance(back, pd.DataFrame)
    assert_frame_equal(back, table)
    assert schema.encode(pd.DataFrame({"opened": ["2030-01-01"]})).shape == (1, 1)  # a date never seen
    with pytest.raises(ValueError, match="'soon' in column 'opened', row 0, is not a date such as 2024-05-31"):
        schema.encode(pd.DataFrame({"opened": ["soon"]}))


def test_categories_and_gaps_of_further_rows_count() -> None:
    table = pd.DataFrame({"city": ["Rome", "Oslo"], "income": [1.0, 2.0]})
    more = pd.DataFrame({"income": [np.nan], "city": ["Bonn"]})
    schema = describe_table(table, any_model=True, more=more)
    assert schema.kinds.categories == (3, 0)
    assert schema.kinds.gaps == (False, True)
    schema.encode(more)


def test_objects_that_are_numbers_or_dates_are_such() -> None:
    day = dt.date(2020, 1, 1)
    table = pd.DataFrame(
        {"a": [1, 2, None], "b": [1.5, 2, 3], "c": [Decimal(1), Decimal(2), None], "d": [day, None, day]}
    )
    objects = table.astype(object)
    schema = describe_table(objects, any_model=True)
    assert [column.kind for column in schema.columns] == ["number", "number", "number", "date"]
    assert_close(
        schema.encode(objects)[:, :3], torch.tensor(table[["a", "b", "c"]].astype(float).values), equal_nan=True
    )
    decoded = schema.decode(schema.encode(objects))
    assert isinstance(decoded, pd.DataFrame)
    assert decoded["a"].dtype == np.float64
    assert decoded["d"].dtype.kind == "M"


def test_each_entry_without_a_rule_is_listed_and_marks_its_row_alone() -> None:
    schema = describe_table(FITTED, any_model=True)
    wrong = FITTED.assign(age=[30, np.nan, 50], city=["Rome", "Oslo", "Oslo"], gap=[np.inf, np.nan, 1.0])
    entries = schema.find_unusable(wrong)
    assert [(entry.row, entry.column) for entry in entries] == [(0, "gap"), (1, "age"), (1, "city"), (2, "city")]
    assert entries[2].about == "'Oslo' in column 'city' is an unknown category"
    assert mark_usable(entries, 3).tolist() == [False, False, False]
    assert schema.find_unusable(FITTED) == []
    schema.encode(wrong[:0])
    array = describe_table(np.array([[1.0, np.nan], [2.0, 3.0]]), any_model=True)
    found = array.find_unusable([[np.nan, np.nan], [1.0, 2.0], [0.0, np.inf]])
    assert [(entry.row, entry.column) for entry in found] == [(0, "column 0"), (2, "column 1")]
    module = describe_table(FITTED[["age"]], any_model=False)
    assert "overflows float32" in module.find_unusable(pd.DataFrame({"age": [1e300]}))[0].problem


def test_a_models_own_categories_are_restored() -> None:
    table = pd.DataFrame({"city": ["Rome", "Oslo", None], "size": [1, 2, 1], "plain": ["a", "b", "a"]})
    schema = describe_table(table, any_model=True, trained={"city": ["Oslo", "Bonn", "Rome"], "size": [2, 1]})
    found = schema.decode(schema.encode(table))
    assert isinstance(found, pd.DataFrame)
    assert found["city"].cat.categories.tolist() == ["Oslo", "Bonn", "Rome"]
    assert found["city"].astype(object).tolist()[:2] == ["Rome", "Oslo"]
    assert found["size"].tolist() == [1, 2, 1]
    assert found["size"].cat.categories.dtype == np.int64
    assert found["plain"].tolist() == ["a", "b", "a"]
    spaced = table.rename(columns={"city": "home city"})  # which LightGBM calls home_city
    assert (
        describe_table(spaced, any_model=True, trained={"home_city": ["Rome", "Oslo"]}).columns[0].dtype == "category"
    )
    again = table.assign(city=pd.Categorical(["Rome", "Oslo", None]))
    assert torch.equal(schema.encode(again), schema.encode(table))
    assert schema.find_unusable(table.assign(city="Bonn")) == []  # the model knows it
    with pytest.raises(ValueError, match=r"column 'city' contains 0, 1.*trained with the categories 'Oslo'"):
        describe_table(table.assign(city=[0, 1, 0]), any_model=True, trained={"city": ["Oslo", "Rome"]})


def test_free_text_is_refused() -> None:
    remarks = pd.DataFrame({"remark": [f"remark {number}" for number in range(60)]})
    with pytest.raises(ValueError, match="column 'remark' looks like free text: 60 different"):
        describe_table(remarks, any_model=True)
