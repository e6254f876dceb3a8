"""Decisions applied to data of every format: only labels change; nothing is written if one cannot be applied."""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from openpyxl import Workbook, load_workbook
from openpyxl.styles import Font
from pyarrow import array, parquet, string, table

from fwshapley.audit.review.corrections import apply_decisions
from fwshapley.audit.review.decisions import Decision


def decision(name: str, label: str, new_label: str, index: int = 0) -> Decision:
    return Decision(index, name, label, "keep" if new_label == label else "other", new_label, line=index + 2)


CSV = 'id,"kind, really",note\r\n007, cat ,"a ""b"", c"\r\n8,"dog",\r\n\r\n9, cat,"two\nlines"\r\n1e3,dog'
CORRECTED = 'id,"kind, really",note\r\n007, "dog","a ""b"", c"\r\n8,"dog",\r\n\r\n9, cat,"two\nlines"\r\n1e3,cat '
"""The same with the labels of rows 2 and 6 exchanged, each as it is first written."""


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-8", b""),
        ("utf-8", codecs.BOM_UTF8),
        ("cp1252", b""),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
    ],
)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_only_labels_of_a_csv_file_change(tmp_path: Path, encoding: str, mark: bytes, separator: str) -> None:
    def encoded(text: str) -> bytes:
        head = "id,kind,note" if separator == "," else re.sub(",", separator, "id,kind,größe")
        cells = text.partition("\r\n")[2].replace(", ", f"{separator} ")
        body = cells if separator == "," else re.sub(r'("(?:[^"]|"")*")|,', lambda hit: hit[1] or separator, cells)
        return mark + f"{head}\r\n{body}".encode(encoding)

    data, out = tmp_path / "pets.csv", tmp_path / "corrected.csv"
    data.write_bytes(encoded(CSV))
    chosen = [decision("2", "cat", "dog"), decision("6", "dog", "cat", 1), decision("5", "cat", "cat", 2)]
    name = "utf-16" if encoding.startswith("utf-16") else encoding
    assert apply_decisions(chosen, data, out, label="kind", encoding=name) == out
    assert out.read_bytes() == encoded(CORRECTED)
    assert data.read_bytes() == encoded(CSV)


def test_a_column_may_have_a_quoted_name(tmp_path: Path) -> None:
    data, out = tmp_path / "pets.csv", tmp_path / "corrected.csv"
    data.write_bytes(CSV.encode())
    apply_decisions([decision("2", "cat", "dog"), decision("6", "dog", "cat", 1)], data, out, label="kind, really")
    assert out.read_bytes() == CORRECTED.encode()


def test_cells_with_anything_in_them_stay(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    data, out = tmp_path / "data.csv", tmp_path / "corrected.csv"
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
        cells = np.array(["".join(generator.choice(list('a",;\n \tä'), 4)) for _ in range(120)], object).reshape(40, 3)
        frame = pd.DataFrame(cells, columns=["x", "z", "t"])
        frame.insert(2, "kind", generator.choice(['a "cat", or', "b;dog", "c"], 40))
        frame.to_csv(data, index=False, quoting=quoting)
        wanted = frame.assign(kind=generator.permutation(frame.kind))
        pairs = zip(frame.kind, wanted.kind, strict=True)
        chosen = [decision(str(place + 2), old, new, place) for place, (old, new) in enumerate(pairs)]
        apply_decisions(chosen, data, out, label="kind")
        wanted.to_csv(data, index=False, quoting=quoting)
        assert out.read_bytes() == data.read_bytes()


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zip"])
def test_compressed_files_stay_compressed(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame({"weight": [4, 30, 28], "kind": ["cat", "dog", "cat"]})
    data, out = tmp_path / f"pets.csv{suffix}", tmp_path / f"corrected.csv{suffix}"
    frame.to_csv(data, index=False)
    apply_decisions([decision("4", "cat", "dog")], data, out, label="kind")
    assert pd.read_csv(out).kind.tolist() == ["cat", "dog", "dog"]
    if suffix == ".gz":
        assert gzip.decompress(out.read_bytes()) == b"weight,kind\n4,cat\n30,dog\n28,dog\n"
    if suffix == ".zip":
        assert zipfile.ZipFile(out).namelist() == ["pets.csv"]


def test_numbers_keep_their_spelling(tmp_path: Path) -> None:
    data, out = tmp_path / "ratings.csv", tmp_path / "corrected.csv"
    data.write_text("x,stars\n1,1.0\n2,2.0\n3,1.0\n4,\n")
    apply_decisions([decision("4", "1", "2")], data, out, label="stars")
    assert out.read_text() == "x,stars\n1,1.0\n2,2.0\n3,2.0\n4,\n"


def test_a_parquet_file_keeps_its_types(tmp_path: Path) -> None:
    data, out = tmp_path / "pets.parquet", tmp_path / "corrected.parquet"
    kinds = array(["cat", "dog", None, "cat"], string()).dictionary_encode()
    made = table({"legs": array([4, None, 4, 4]), " kind": kinds}).replace_schema_metadata({"made": "by hand"})
    parquet.write_table(made, data)
    apply_decisions([decision("3", "cat", "dog")], data, out, label="kind")
    read = parquet.read_table(out)
    assert read.schema.equals(parquet.read_table(data).schema, check_metadata=True)
    assert read.column(" kind").to_pylist() == ["cat", "dog", None, "dog"]
    assert read.column("legs").equals(made.column("legs"))


def test_other_sheets_formulas_and_formats_remain(tmp_path: Path) -> None:
    data, out = tmp_path / "pets.xlsx", tmp_path / "corrected.xlsx"
    book = Workbook()
    sheet = book.create_sheet("pets")
    for row in (["age", "stars"], [3, 1], ["=1+1", 2], [5, 1]):
        sheet.append(row)
    sheet["B2"].font = Font(bold=True)
    book.worksheets[0]["A1"] = "first"
    book.save(data)
    apply_decisions([decision("2", "1", "2")], f"{data}:pets", out, label="stars")
    corrected = load_workbook(out)
    assert [cell.value for cell in corrected["pets"]["B"]] == ["stars", 2, 2, 1]
    assert corrected["pets"]["A3"].value == "=1+1"
    assert corrected["pets"]["B2"].font.bold
    assert corrected.worksheets[0]["A1"].value == "first"


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("labels", [np.array([[3], [5], [3]], np.uint8), np.array(["3", "5", "3"])])
def test_arrays_keep_their_types(tmp_path: Path, save: object, labels: np.ndarray) -> None:
    data, out = tmp_path / "digits.npz", tmp_path / "corrected.npz"
    assert callable(save)
    save(data, x=np.eye(3), y=labels)
    with zipfile.ZipFile(data, "a") as archive:  # an array whose name is that of an argument of np.savez
        archive.writestr("file.npy", archive.read("x.npy"))
    apply_decisions([decision("2", "3", "5")], data, out)
    with np.load(out) as arrays:
        assert arrays["y"].dtype == labels.dtype
        assert arrays["y"].shape == labels.shape
        assert arrays["y"].reshape(-1).astype(str).tolist() == ["3", "5", "5"]
        assert (arrays["x"] == np.eye(3)).all()
        assert (arrays["file"] == np.eye(3)).all()
    compressions = [zipfile.ZipFile(file).infolist()[0].compress_type for file in (data, out)]
    assert compressions[0] == compressions[1]


def test_a_folder_is_copied_by_class(tmp_path: Path) -> None:
    data, out = tmp_path / "photos", tmp_path / "corrected"
    names = ["cat/1.png", "cat/in/2.png", "dog/1.png", "dog/notes.txt", "dog/1-from-cat.png"]
    for name in names:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(name)
    out.mkdir()
    chosen = [decision("cat/1.png", "cat", "dog"), decision("cat/in/2.png", "cat", "dog", 1)]
    apply_decisions(chosen, data, out)
    copied = {file.relative_to(out).as_posix(): file.read_text() for file in out.rglob("*") if file.is_file()}
    assert copied == {
        "dog/1.png": "dog/1.png",
        "dog/1-from-cat.png": "dog/1-from-cat.png",
        "dog/1-from-cat-2.png": "cat/1.png",
        "dog/in/2.png": "cat/in/2.png",
        "dog/notes.txt": "dog/notes.txt",
    }
    assert sorted(file.relative_to(data).as_posix() for file in data.rglob("*.*")) == sorted(names)
    with pytest.raises(FileExistsError, match="not an empty folder"):
        apply_decisions(chosen, data, out)
    with pytest.raises(ValueError, match="not inside it"):
        apply_decisions(chosen, data, data / "corrected")
    with pytest.raises(ValueError, match="label='kind' is for tables"):
        apply_decisions(chosen, data, tmp_path / "new", label="kind")


def test_a_folder_is_copied_completely_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        (tmp_path / "photos" / name / "1.png").write_text(name)
    monkeypatch.setattr("shutil.copy2", fail)
    with pytest.raises(OSError, match="no space left"):
        apply_decisions([decision("cat/1.png", "cat", "dog")], tmp_path / "photos", tmp_path / "corrected")
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (decision("9", "cat", "dog", 1), r"line 3 of the decisions: .*pets.csv has no row 9 with a label; it has 2, 3"),
        (decision("5", "cat", "dog", 1), "no row 5 with a label"),
        (decision("3", "cat", "dog", 1), "line 3 of the decisions: row 3 had the label 'cat' .* and has 'dog' in"),
        (decision("3", "bird", "dog", 1), "had the label 'bird'"),
        (decision("3", "dog", "bird", 1), "line 3 of the decisions: no row of .* has the label 'bird'; write one of"),
        (decision("3", "dog", "catt", 1), "did you mean 'cat'"),
    ],
)
def test_nothing_is_written_if_a_decision_cannot_be_applied(tmp_path: Path, wrong: Decision, words: str) -> None:
    data, out = tmp_path / "pets.csv", tmp_path / "new" / "corrected.csv"
    data.write_text("weight,kind\n4,cat\n30,dog\n28,cat\n1,\n")
    with pytest.raises(ValueError, match=words):
        apply_decisions([decision("4", "cat", "dog"), wrong], data, out, label="kind")
    assert [path.name for path in tmp_path.iterdir()] == ["pets.csv"]


@pytest.mark.parametrize(
    ("out", "label", "words"),
    [
        ("pets.csv", "kind", "out must be another file than"),
        ("out.txt", "kind", r"out must end in \.csv"),
        (".", "kind", "out must be a file, got the folder"),
        ("out.csv", None, "label must name the column"),
        ("out.csv", "kinds", "did you mean 'kind'"),
    ],
)
def test_bad_arguments_are_refused(tmp_path: Path, out: str, label: str | None, words: str) -> None:
    data = tmp_path / "pets.csv"
    data.write_text("weight,kind\n4,cat\n30,dog\n")
    with pytest.raises((ValueError, IsADirectoryError), match=words):
        apply_decisions([decision("2", "cat", "dog")], data, tmp_path / out, label=label)
    assert data.read_text() == "weight,kind\n4,cat\n30,dog\n"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        apply_decisions([], tmp_path / "absent.csv", tmp_path / "out.csv", label="kind")
