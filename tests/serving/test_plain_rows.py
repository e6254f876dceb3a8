"""Plain rows become the numbers that the schema of the table gives; whatever is unusual is left to the schema."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwshapley.serving.plain_rows import PlainRows
from fwshapley.tables.network_encoding import describe_table

TABLE = pd.DataFrame(
    {
        "age": [30, 41, 7, 5],
        "income": [1.5, np.nan, -2.0, 0.0],
        "city": ["Rome", "Oslo", None, "Rome"],
        "member": [True, False, True, True],
    }
)
ROWS: list[dict[str, Any]] = [
    {"age": 1, "income": None, "city": "Oslo", "member": False},
    {"member": True, "city": None, "income": 2, "age": 10**6},
]
SCHEMA = describe_table(TABLE, any_model=True)
PLAIN = PlainRows.of(SCHEMA)


def test_plain_rows_are_encoded_as_the_schema_does() -> None:
    assert PLAIN is not None
    expected = SCHEMA.to_numbers(pd.DataFrame(ROWS)[list(TABLE)])
    np.testing.assert_array_equal(PLAIN.encode(ROWS, 2), expected)
    lists = [[row[name] for name in SCHEMA.names] for row in ROWS]
    np.testing.assert_array_equal(PLAIN.encode(lists, 2), expected)
    assert lists == [[row[name] for name in SCHEMA.names] for row in ROWS]  # they are not changed
    numbers = PlainRows.of(describe_table(np.ones((3, 2)), any_model=False))
    assert numbers is not None
    encoded = numbers.encode([[1, 2.5], [3, 1e38]], 2)
    assert encoded is not None
    assert encoded.dtype == np.float32
    np.testing.assert_array_equal(encoded, np.array([[1, 2.5], [3, 1e38]], dtype=np.float32))
    assert numbers.encode([[1, 1e39]], 1) is None
    assert numbers.encode([[1, None]], 1) is None
    assert numbers.encode([{"column 0": 1, "column 1": 2}], 1) is None


@pytest.mark.parametrize(
    "change",
    [
        {"age": True},
        {"age": "3"},
        {"age": None},
        {"income": [1]},
        {"city": "Bern"},
        {"city": 1},
        {"city": ["Rome"]},
        {"member": 1},
        {"member": None},
        {"other": 1},
    ],
)
def test_what_is_not_plain_is_left_to_the_schema(change: dict[str, Any]) -> None:
    assert PLAIN is not None
    assert PLAIN.encode([ROWS[0], ROWS[1] | change], 2) is None


def test_it_leaves_wrong_instances_and_other_tables_to_the_schema() -> None:
    assert PLAIN is not None
    wrong: tuple[object, ...] = (None, [], {}, "rows", [1], [[1, 2]], [{}], ROWS * 2, [ROWS[0], None])
    for instances in wrong:
        assert PLAIN.encode(instances, 3) is None
    dates = pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2021-05-31"]), "size": [1.0, 2.0]})
    assert PlainRows.of(describe_table(dates, any_model=True)) is None
    assert PlainRows.of(describe_table(pd.DataFrame({"one": ["a", 1, "a"]}), any_model=True)) is None
