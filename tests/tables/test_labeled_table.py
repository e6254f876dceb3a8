from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from fwshapley._internal.wording import duration, listed, shortened
from fwshapley.tables.labeled_table import Table, read_table

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of the given lines, or bytes, and return where it is."""

    def write(*lines: str, name: str = "table.csv", encoding: str = "utf-8") -> Path:
        path = tmp_path / name
        path.write_bytes("\n".join([*lines, ""]).encode(encoding))
        return path

    return write


@pytest.fixture
def people(write: Write) -> Table:
    """Return a small table with a column of each kind."""
    return read_table(write(*PEOPLE), "job")


PEOPLE = [
    "age,town,member,since,job",
    "30,Rome,True,2020-01-01,cook",
    "40,Oslo,False,2020-01-03,cook",
    "50,Rome,True,2020-01-05,smith",
    "60,Rome,True,2020-01-07,smith",
]


def note_of(table: Table, *words: str) -> str:
    found = [note for note in table.notes if all(word in note for word in words)]
    assert len(found) == 1, table.notes
    return found[0]


def test_numbers_are_standardized(write: Write) -> None:
    table = read_table(write("a,b,y", "1,10,p", "2,50,q", "4,20,p", "8,25,q"), "y")
    rows = [[1, 10], [2, 50], [4, 20], [8, 25]]
    np.testing.assert_allclose(table.x, StandardScaler().fit_transform(rows), atol=1e-12)
    assert "a, b" in note_of(table, "2 columns of numbers, standardized (mean 0, standard deviation 1)")


def test_numbers_may_stay_as_they_are(write: Write) -> None:
    table = read_table(write("a,b,y", "1,7,p", "2,7,q"), "y", scale=False)
    assert table.x.tolist() == [[1, 7], [2, 7]]
    assert note_of(table, "2 columns of numbers, used as they are")


def test_two_categories_are_as_far_apart_as_two_rows_typically_are_in_a_standardized_column(write: Write) -> None:
    lines = [f"{number % 7 * number},{'xyz'[number % 3]},{number % 2}" for number in range(30)]
    x = read_table(write("size,color,y", *lines), "y").x
    size, color = x[:, 0], x[:, 1:]
    typical = np.sqrt(np.mean((size[:, None] - size) ** 2))
    assert np.linalg.norm(color[0] - color[1]) == pytest.approx(np.sqrt(2)) == pytest.approx(typical)
    assert np.linalg.norm(color[0] - color[3]) == 0


def test_each_kind_of_column_is_told_from_the_others(people: Table) -> None:
    assert people.x.shape == (4, 6)
    assert people.classes.names == ("cook", "smith")
    assert people.y.tolist() == [0, 0, 1, 1]
    assert "age" in note_of(people, "1 column of numbers")
    assert "since" in note_of(people, "1 column of dates, as days")
    assert "town (2), member (2)" in note_of(people, "2 columns of categories, one 0/1 coordinate per category")
    np.testing.assert_allclose(people.x[:, -1], people.x[:, 0])  # both rise evenly


def test_rows_are_counted_as_a_spreadsheet_does_whatever_is_left_out(write: Write) -> None:
    table = read_table(write("a,y", "1,p", "", "2,", "3,q", ",", "4,NA", "5,p", ""), "y")
    assert table.rows.tolist() == [2, 5, 8]
    assert "4, 7" in note_of(table, "2 rows without a label left out")
    assert note_of(table, "3 blank rows skipped")


def test_columns_of_no_use_are_left_out_by_name(write: Write) -> None:
    lines = [
        f"{40 - number},{number * number},row {number},same,,{number % 3},w{number % 60},{number % 2}"
        for number in range(120)
    ]
    table = read_table(write("back,square,remark,fixed,nothing,used,word,y", *lines), "y")
    assert [each.name for each in table.columns] == ["used"]
    assert note_of(table, "Left out: back, square (it numbers the rows)")
    assert note_of(table, "Left out: remark (nearly every row has a text of its own")
    assert note_of(table, "Left out: fixed (it is the same in every row)")
    assert note_of(table, "Left out: nothing (it is empty)")
    assert note_of(table, "Left out: word (it has 60 different texts, more than 50 categories)")


def test_shuffled_row_numbers_are_no_feature_but_counts_in_a_short_table_are(write: Write) -> None:
    shuffled = np.random.default_rng(0).permutation(30) + 100
    lines = [f"{number},{number % 4},{number % 2}" for number in shuffled]
    assert [each.name for each in read_table(write("id,a,y", *lines), "y").columns] == ["a"]
    assert read_table(write("a,y", "1,p", "2,q", "3,p"), "y").columns


def test_columns_may_be_left_out_by_hand(write: Write) -> None:
    table = read_table(write(*PEOPLE), "job", ignore=["town", "age"])
    assert [each.name for each in table.columns] == ["member", "since"]
    assert note_of(table, "Left out: town, age (--ignore)")
    with pytest.raises(ValueError, match=r"no column 'twon' \(did you mean 'town'\?\)"):
        read_table(write(*PEOPLE), "job", ignore=["twon"])


def test_missing_numbers_become_the_median_and_missing_categories_a_category(write: Write) -> None:
    table = read_table(write("a,b,c,y", "1,,x,p", "?,2,,q", "3,6,x,p", "9,4,y,q", "5,inf,,q"), "y", scale=False)
    assert table.x[:, :2].tolist() == [[1, 4], [4, 2], [3, 6], [9, 4], [5, 4]]
    assert table.x[:, 2:].argmax(1).tolist() == [0, 2, 0, 1, 2]
    assert "a (1), b (2)" in note_of(table, "3 missing numbers replaced by the median of the column")
    assert "c (3)" in note_of(table, "categories")


def test_a_few_texts_among_numbers_count_as_missing(write: Write) -> None:
    table = read_table(write("a,y", *(f"{number % 7},{number % 2}" for number in range(40)), "unknown,1"), "y")
    assert "a (unknown)" in note_of(table, "Texts among numbers count as missing")
    assert note_of(table, "1 missing number")


def test_truths_are_categories_even_where_some_are_missing(write: Write) -> None:
    table = read_table(write("a,y", "TRUE,p", "false,q", ",p", "True,q"), "y")
    assert table.x.argmax(1).tolist() == [1, 0, 2, 1]


def test_dates_of_unclear_form_are_texts(write: Write) -> None:
    table = read_table(write("a,when,y", *(f"{n % 3},0{n}/05/2024,{n % 2}" for n in range(1, 8))), "y")
    assert note_of(table, "Left out: when (nearly every row has a text of its own")


@pytest.mark.parametrize(("separator", "name"), [(";", "semicolons"), ("\t", "tabs")])
def test_separator_and_decimal_comma_are_found(write: Write, separator: str, name: str) -> None:
    lines = [line.replace("|", separator) for line in ("a|b, c|y", "1,5|2|p", "-2,5|3|q", "|4|q")]
    table = read_table(write(*lines), "y", scale=False)
    assert table.x.tolist() == [[1.5, 2], [-2.5, 3], [-0.5, 4]]
    assert note_of(table, f"Columns are separated by {name}")
    assert note_of(table, "Numbers with a decimal comma: a")


def test_what_excel_writes_is_read(write: Write) -> None:
    table = read_table(write("größe,y", "1,ä", "2,ö", encoding="utf-8-sig"), "y")
    assert table.columns[0].name == "größe"
    table = read_table(write("größe,y", "1,ä", "2,ö", encoding="cp1252"), "y", encoding="cp1252")
    assert table.classes.names == ("ä", "ö")


def test_arrays_are_read(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(12, 2, 3)), np.array([0.0, 1.0, np.nan] * 4)
    for names in (("x", "y"), ("features", "labels")):
        np.savez(tmp_path / "arrays.npz", **{names[0]: x, names[1]: y})  # type: ignore[arg-type]
        table = read_table(tmp_path / "arrays.npz", None, scale=False)
        np.testing.assert_array_equal(table.x, x.reshape(12, 6)[~np.isnan(y)])
        assert table.classes.names == ("0", "1")
        assert table.rows.tolist() == [0, 1, 3, 4, 6, 7, 9, 10]
        assert not table.is_spreadsheet


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["10", "9", "9.0", "10"], ("9", "10")),
        (["0.5", "1", "1.5", "0.5"], ("0.5", "1", "1.5")),
        (["b", " a ", "b ", "a"], ("a", "b")),
        (["None", "some", "some", "None"], ("None", "some")),
        (["True", "False", "True", "True"], ("False", "True")),
        (["1", "2", "x", "1"], ("1", "2", "x")),
        (["12345678901234567890", "12345678901234567891", "1", "1"], None),
    ],
)
def test_labels_may_be_numbers_or_text(write: Write, labels: list[str], names: tuple[str, ...] | None) -> None:
    path = write("a,y", *(f"{place % 3},{label}" for place, label in enumerate(labels)))
    table = read_table(path, "y", task="classification")
    assert table.classes.names == (names or tuple(sorted(set(labels), key=int)))
    assert len(np.unique(table.y)) == len(table.classes.names)


def test_a_reference_is_put_on_the_scale_of_the_table(people: Table, write: Write) -> None:
    lines = ["job,since,member,town,age,shoe", "smith,2020-01-03,true,Bonn,,43", "cook,2020-01-01,,Rome,60,44"]
    reference = people.read_reference(write(*lines, ",2020-01-01,true,Rome,30,45", name="held.csv"))
    assert reference.y.tolist() == [1, 0]
    assert reference.rows.tolist() == [2, 3]
    np.testing.assert_allclose(reference.x[1, 0], people.x[3, 0])
    np.testing.assert_allclose(reference.x[:, 5], people.x[[1, 0], 5])
    assert reference.x[0, 0] == pytest.approx(0)  # the median, 45, is the mean
    assert reference.x[0, 1:3].tolist() == [0, 0]  # Bonn is in no place of its own
    assert "shoe" in note_of(reference, "held.csv: ignored, since table.csv has no such column")
    assert "town (Bonn), member (missing entries)" in note_of(reference, "equally far from all")
    assert "age (1)" in note_of(reference, "replaced by the median of the column in table.csv")
    assert note_of(reference, "1 row without a label left out: 4")


def test_categories_that_look_like_numbers_are_found_in_the_reference(write: Write) -> None:
    table = read_table(write("grade,y", *["1,p", "A,q", "1,q", "A,p"] * 3), "y")
    reference = table.read_reference(write("grade,y", "1,p", "1,q", name="held.csv"))
    np.testing.assert_array_equal(reference.x, table.x[[0, 0]])


def test_numbers_as_labels_are_the_same_however_they_are_written(write: Write) -> None:
    table = read_table(write("a,y", "1,1.0", "2,2.0"), "y")
    assert table.read_reference(write("a,y", "1,2", "2,1", name="held.csv")).y.tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"labels that .* does not have: 3, two;"):
        table.read_reference(write("a,y", "1,2", "2,3", "1,two", name="held.csv"))


def test_a_reference_need_not_have_what_the_table_leaves_out(write: Write) -> None:
    table = read_table(write("a,fixed,y", "1,x,p", "2,x,q"), "y")
    assert len(table.read_reference(write("a,y", "1,p", name="held.csv"))) == 1


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["age,town,job", "1,Rome,cook"], r"held.csv lacks columns that .*table.csv has: member, since"),
        (["age,town,member,since", "1,Rome,True,2020-01-01"], r"held.csv has no column 'job'"),
        ([PEOPLE[0], "1,Rome,True,2020-01-01,nurse"], r"column job of .*held.csv has labels that .* not have: nurse"),
        ([PEOPLE[0], "old,Rome,True,2020-01-01,cook"], "column age must contain numbers, got old, unlike table"),
        ([PEOPLE[0], "1,Rome,True,yesterday,cook"], "column since must contain dates, got yesterday"),
        ([PEOPLE[0], "1,Rome,True,2020-01-01,"], "column job of .*held.csv has no label in any row"),
    ],
)
def test_a_reference_that_does_not_fit_is_refused(
    people: Table, write: Write, lines: list[str], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        people.read_reference(write(*lines, name="held.csv"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "is empty"),
        (b"\n\n", "the first line of .* is blank"),
        (b"\n1,p\n", "the first line of .* is blank"),
        (b"a,y\n", "has a header, but no rows"),
        (b"a,y\n1,p\n2,p\n", "every label in column y of .* is p: at least 2 classes"),
        (b"a,y\n1,\n2,\n", "no label in any row"),
        (b"a,a,b,b,y\n1,2,3,4,p\n", "more than one column of the name a, b"),
        (b"a,y\n1,p\n2,q,r\n", "malformed: Expected 2 fields in line 3, saw 3$"),
        (b"a,y\n1,p,2\n2,q,3\n", "malformed: its rows have more fields than its header"),
        (b'a,y\n1,"p\n2,q\n', "malformed: EOF inside string"),
        (b"a,y\n1,\xe9\n2,q\n", r"is not utf-8 text: .* --encoding cp1252"),
        ("a,y\n1,p\n".encode("utf-16"), r"is not utf-8 text: .* --encoding utf-16"),
        (b"y\np\nq\n", "no column to compare its rows by.*it has no other column"),
        (b"a,y\n1,p\n1,q\n", "no column to compare its rows by.*a: it is the same in every row"),
        (b"a,Y\n1,p\n2,q\n", r"has no column 'y' \(did you mean 'Y'\?\); its columns are a, Y"),
        (b"1,p\n2,q\n", r"has no column 'y' \(is the line with their names missing\?\)"),
    ],
)
def test_a_bad_file_is_explained(tmp_path: Path, text: bytes, complaint: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=complaint):
        read_table(path, "y")


def test_labels_are_classes_or_targets(write: Write) -> None:
    numbers = np.random.default_rng(0).normal(size=60)
    lines = [f"{place % 3},{number},name {place},{place * 10},{place % 25}" for place, number in enumerate(numbers)]
    path = write("a,price,name,code,month", *lines)
    for label, targets in (("price", numbers), ("code", np.arange(60) * 10)):
        table = read_table(path, label)
        assert table.task == "regression"
        assert not table.classes.names
        assert np.allclose(table.y, targets)
        assert np.allclose(table.read_reference(path).y, targets)
    assert read_table(path, "a").task == "classification"
    with pytest.raises(ValueError, match=r"column month of .* 25 different numbers.*--task classification or --task"):
        read_table(path, "month")
    assert len(read_table(path, "month", task="classification").classes.names) == 25
    assert np.allclose(read_table(path, "month", task="regression").y, np.arange(60) % 25)
    with pytest.raises(ValueError, match=r"column name of .* looks like names or remarks, not classes"):
        read_table(path, "name")
    with pytest.raises(ValueError, match=r"column name of .* finite numbers for regression, got 'name 0' in row 2"):
        read_table(path, "name", task="regression")


def test_a_file_that_is_none_is_explained(tmp_path: Path, write: Write) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nowhere.csv"):
        read_table(tmp_path / "nowhere.csv", "y")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_table(tmp_path, "y")
    with pytest.raises(ValueError, match=r"save the table as a \.csv file"):
        read_table(write("PK", name="table.ods"), "y")
    with pytest.raises(ValueError, match="is damaged, or of another format than its name says"):
        read_table(write("PK", name="table.xlsx"), "y")
    with pytest.raises(ValueError, match="there is no text encoding 'utf-9'; common ones are"):
        read_table(write("a,y"), "y", encoding="utf-9")
    with pytest.raises(ValueError, match=r"--label must name the column of .*; its columns are a, y"):
        read_table(write("a,y", "1,p"), None)


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"x": np.zeros((3, 2))}, "must have an array 'y' of labels; it has x$"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(2)}, r"must contain a label per row: x has shape \(3, 2\), y \(2,\)"),
        ({"x": np.array([["a"]]), "y": np.zeros(1)}, "x of .* must be numbers"),
        ({"x": np.array([[None]]), "y": np.zeros(1)}, "damaged, or not an .npz file of plain arrays"),
    ],
)
def test_bad_arrays_are_explained(tmp_path: Path, arrays: dict[str, np.ndarray], complaint: str) -> None:
    np.savez(tmp_path / "arrays.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=complaint):
        read_table(tmp_path / "arrays.npz", None)


def test_a_file_of_arrays_that_is_none_is_explained(write: Write) -> None:
    with pytest.raises(ValueError, match=r"damaged, or not an .npz file"):
        read_table(write("a,y", "1,p", name="arrays.npz"), None)


def test_many_rows_take_the_memory_of_their_numbers(write: Write) -> None:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(20_000, 9)).round(3)).rename(columns=str)
    frame["town"] = generator.choice(["Rome", "Oslo"], len(frame))
    frame["y"] = generator.integers(0, 3, len(frame))
    path = write()
    frame.to_csv(path, index=False)
    table = read_table(path, "y")
    assert table.x.nbytes == 20_000 * 11 * 8
    assert np.abs(table.x[:, :9].mean(0)).max() < 1e-9


def test_numbers_that_have_no_scale_are_left_out(write: Write) -> None:
    table = read_table(write("a,b,c,y", "1e308,1,inf,p", "-1e308,2,-inf,q", "1e308,4,inf,p"), "y")
    assert note_of(table, "Left out: c (it contains no finite number)")
    assert note_of(table, "Left out: a (its numbers, -1e+308 to 1e+308, are too large or too close to standardize)")


def test_lists_and_texts_stay_short() -> None:
    assert listed("abc", most=2) == "a, b and 1 more"
    assert shortened("\x1b[31m" + "x" * 60) == " [31m" + "x" * 34 + "…"


def test_texts_are_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "ids.csv"
    lines = [
        f"{9007199254740993 + row},0{8654 + row},{'None' if row % 2 else 'NA'},{row},00{row % 2}" for row in range(8)
    ]
    path.write_text("id,code,text,x,label\n" + "\n".join(lines) + "\n", encoding="utf-8")
    texts = read_table(path, "label").texts()
    assert [",".join(row) for row in texts.to_numpy().tolist()] == lines


@pytest.mark.parametrize(("name", "left_out"), [("Unnamed: 0", True), ("customer_id", True), ("width", False)])
def test_a_column_that_numbers_the_rows_by_its_name_is_left_out(name: str, left_out: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a parameter
    numbers = np.random.default_rng(0).permutation(100)[:30]
    frame = pd.DataFrame({name: numbers, "x": np.linspace(0, 1, 30), "label": ["a", "b"] * 15})
    frame.to_csv(tmp_path / "some.csv", index=False)
    notes = read_table(tmp_path / "some.csv", "label").notes
    assert any(note == f"Left out: {name} (it numbers the rows)" for note in notes) == left_out


def test_a_class_that_the_reference_lacks_is_noted(tmp_path: Path) -> None:
    for name, labels in (("all", ["a", "b", "c"]), ("some", ["a", "b", "a"])):
        pd.DataFrame({"x": [0.0, 1.0, 2.5], "label": labels}).to_csv(tmp_path / f"{name}.csv", index=False)
    reference = read_table(tmp_path / "all.csv", "label").read_reference(tmp_path / "some.csv")
    assert reference.notes[-1].startswith("some.csv: no row has label c: rows of all.csv with that label")


def test_durations_have_the_unit_that_reads_best() -> None:
    told = {0.00041: "0.41 ms", 0.0062: "6.2 ms", 0.13: "130 ms", 0.9996: "1.0 s", 9.12: "9.1 s", 192: "3.2 min"}
    for seconds, text in told.items():
        assert duration(seconds) == text
