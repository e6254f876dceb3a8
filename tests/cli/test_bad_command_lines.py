"""Bad command lines: each is refused in one line that says what is wrong, with exit code 2, and nothing is written."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cli_cases import write_models, write_pictures, write_rows, write_table
from fwshapley.cli import app

HUGE = str(10**30)
STEPS = ["--steps", "2", "--device", "cpu"]

BAD_MODELS = """
import sys

from torch import nn


class Raising(nn.Linear):
    def __init__(self, error):
        super().__init__(4, 3)
        self.error = error

    def forward(self, x):
        raise self.error


class Unbuilt(nn.Module):
    def __init__(self):
        raise AttributeError("never built")


class Leaving(nn.Module):
    def __init__(self):
        sys.exit(7)


class Late(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 2:
            raise KeyError("too late")
        return super().forward(x)


class Unreadable:
    @property
    def predict_proba(self):
        raise KeyError("no property")

    def predict(self, x):
        return x


class Mute(Exception):
    def __str__(self):
        raise ValueError


def leave(x):
    sys.exit(5)


def fail(x):
    raise AssertionError("of a function")


key, attribute, asserted = Raising(KeyError("word")), Raising(AttributeError("attr")), Raising(AssertionError())
left, ended, base = Raising(SystemExit(3)), Raising(StopIteration()), Raising(BaseException("of none"))
memory, value, eof, mute = Raising(MemoryError()), Raising(ValueError("v")), Raising(EOFError("e")), Raising(Mute())
late, unreadable, exit_itself, linear = Late(), Unreadable(), sys.exit, nn.Linear(4, 3)
"""

MODELS_AND_WORDS = [
    ("key", "KeyError: 'word' (raised at bad.py:13)"),
    ("attribute", "AttributeError: attr (raised at bad.py:13)"),
    ("asserted", "AssertionError: (raised at bad.py:13)"),
    ("left", "your model raised SystemExit: 3, at bad.py:13"),
    ("ended", "StopIteration: (raised at bad.py:13)"),
    ("base", "your model raised BaseException: of none, at bad.py:13"),
    ("memory", "MemoryError: (raised at bad.py:13)"),
    ("value", "ValueError: v (raised at bad.py:13)"),
    ("eof", "EOFError: e (raised at bad.py:13)"),
    ("mute", "bad.py:49"),
    ("late", "KeyError: 'too late', at bad.py:34"),
    ("unreadable", "your model raised KeyError: 'no property', at bad.py:41"),
    ("leave", "your model raised SystemExit: 5, at bad.py:53"),
    ("fail", "AssertionError: of a function (raised at bad.py:57)"),
    ("exit_itself", "was ended by SystemExit"),
    ("Unbuilt()", "AttributeError: never built (raised at bad.py:18)"),
    ("Leaving()", "SystemExit: 7 (raised at bad.py:23)"),
]

IMPORTS = {
    "i_key.py": ("raise KeyError('k')", "KeyError: 'k' (raised at i_key.py:1)"),
    "i_exit.py": ("import sys\nsys.exit(3)", "importing i_exit.py ended Python"),
    "i_base.py": ("raise BaseException('b')", "BaseException: b (raised at i_base.py:1)"),
    "i_syntax.py": ("def f(:", "SyntaxError"),
    "i_getattr.py": ("def __getattr__(name):\n    raise KeyError(name)", "KeyError: 'model', at i_getattr.py:2"),
    "i_nothing.py": ("", "has no 'model'"),
}

MODELS = [
    ("os:path", "is a module"),
    ("os:sep", "is a str"),
    ("nowhere:model", "no module nowhere"),
    ("nowhere.py:model", "no file nowhere.py"),
    (":", "a model must be"),
    ("models.py:number", "is a int"),
    ("models.py:rows.nothing", "has no 'rows.nothing'"),
    ("i_nothing.py", "a model must be"),
]

TABLES = [
    ("gone.csv", "no file gone.csv"),
    ("empty.csv", "empty.csv is empty"),
    ("loop.csv", "no file loop.csv"),
    ("nul.csv", "nul.csv"),
    ("one.csv", "one.csv"),
    ("twice.csv", "more than one column of the name a"),
    ("header.csv", "no rows below"),
    ("wide.csv", "--encoding utf-16"),
    ("quote.csv", "quote.csv"),
    ("long.csv", "long.csv"),
    ("cut.csv.gz", "cut.csv.gz is damaged or cut off"),
    ("changed.csv.gz", "changed.csv.gz is damaged"),
    ("plain.csv.gz", "plain.csv.gz is damaged"),
    ("cut.csv.bz2", "cut.csv.bz2 is damaged"),
    ("plain.csv.bz2", "plain.csv.bz2 is damaged"),
    ("cut.csv.xz", "cut.csv.xz is damaged"),
    ("plain.csv.xz", "plain.csv.xz is damaged"),
    ("cut.csv.zip", "cut.csv.zip is damaged"),
    ("two.csv.zip", "must contain one .csv file, it contains a.csv, b.csv"),
    ("table.xlsx", "table.xlsx is damaged, or of another format"),
    ("table.csv.zst", "table.csv.zst cannot be read"),
    ("pipe.csv", "pipe.csv is a pipe"),
    ("n" * 300 + ".csv", "name too long"),
]

ARRAYS = [
    ("cut.npz", "is damaged"),
    ("words.npz", "is damaged"),
    ("line.npz", "(5,)"),
    ("complex.npz", "complex128"),
    ("none.npz", "(0, 4)"),
    ("gaps.npz", "NaN"),
    ("infinite.npz", "infinite"),
    ("single.npz", "too few"),
    ("wide.npz", "(54, 9)"),
]

ENCODINGS = [(name, name) for name in ("hex", "rot13", "base64", "bz2", "utf-9")]
DEVICES = [("meta", "--device 'meta'"), ("toaster", "--device 'toaster'"), ("cuda:99", "cuda")]
OUTS = [("drinks.csv", "is a file"), ("loop", "--out"), ("drinks.csv/below", "is a file"), ("/proc/none", "--out")]

VALUE = ["value", "drinks.csv", "--label", "kind"]
FOLDER = ["value", "pictures", *STEPS]
BACKBONE = ["value", "pictures", "--backbone"]
FIT = ["fit", "models.py:rows", "rows.npz", "--device", "cpu"]
FIT_TABLE = ["fit", "pipeline.py:model"]
FIT_IMAGES = ["fit", "models.py:images", "pictures", *STEPS]
EXPLAIN = ["explain", "fitted", "rows.npz", "--pictures", "0"]


ROWS: list[tuple[list[str], str]] = [
    *((["value", name, *VALUE[2:]], word) for name, word in TABLES),
    *((["fit", "pipeline.py:model", name, *STEPS], word) for name, word in TABLES),
    *((["explain", "fitted table", name], word) for name, word in TABLES),
    *(([*VALUE, "--reference", name], word) for name, word in TABLES),
    *((["fit", "models.py:rows", name, *STEPS], word) for name, word in ARRAYS),
    *((["fit", f"bad.py:{name}", "rows.npz", *STEPS], word) for name, word in MODELS_AND_WORDS),
    *((["fit", f"{name}:model", "rows.npz", *STEPS], word) for name, (_, word) in IMPORTS.items()),
    *((["fit", name, "rows.npz", *STEPS], word) for name, word in MODELS),
    *(([*BACKBONE, name], word) for name, word in MODELS),
    *(([*BACKBONE, f"bad.py:{name}"], "bad.py:") for name in ("key", "asserted", "left", "leave", "Leaving()")),
    *(([*EXPLAIN, "--model", f"bad.py:{name}"], "bad.py:") for name in ("key", "attribute", "left", "Leaving()")),
    *(([*EXPLAIN, "--model", f"{name}:model"], word) for name, (_, word) in IMPORTS.items()),
    *(([*VALUE, "--encoding", name], word) for name, word in ENCODINGS),
    *((["fit", "pipeline.py:model", "drinks.csv", "--encoding", name, *STEPS], word) for name, word in ENCODINGS),
    *((["explain", "fitted table", "drinks.csv", "--encoding", name], word) for name, word in ENCODINGS),
    *(([*command, "--device", name], word) for command in (VALUE, FOLDER, FIT, EXPLAIN) for name, word in DEVICES),
    *(([*command, "--out", name], word) for command in (VALUE, FOLDER, EXPLAIN) for name, word in OUTS),
    *(([*FIT, "--steps", "2", "--out", name], word) for name, word in OUTS),
    *(([*command, "--out", ""], "--out") for command in (VALUE, FOLDER, FIT, EXPLAIN)),
    (["value", ""], "empty"),
    ([*VALUE, "--k", "0"], "--k"),
    ([*VALUE, "--k", HUGE], HUGE),
    ([*VALUE, "--jobs", "0"], "--jobs"),
    ([*VALUE, "--top", "0"], "--top"),
    ([*VALUE, "--alpha", "nan"], "alpha"),
    ([*VALUE, "--beta", "inf"], "beta"),
    ([*VALUE, "--ignore", "nothing"], "nothing"),
    ([*VALUE, "--size", "8"], "--size"),
    (["value", "drinks.csv"], "--label"),
    (["value", "rows.npz"], "rows.npz"),
    (["value", "empty"], "no pictures"),
    (["value", "broken", "--folds", "2", "--k", "2", *STEPS], "4 of 6 files"),
    *(([*FOLDER, "--size", size], "--size") for size in ("0x0", "99999999x1", HUGE, "x", "1x2x3", "-1")),
    *(([*FOLDER, "--seconds", seconds], "seconds") for seconds in ("-1", "0", "nan", "inf")),
    *(([*FOLDER, option, "0"], option) for option in ("--folds", "--steps")),
    *(([*FOLDER, option, HUGE], option) for option in ("--steps", "--seed")),
    ([*FOLDER, "--folds", HUGE], HUGE),
    ([*FOLDER, "--k", HUGE], HUGE),
    ([*FOLDER, "--reference", "drinks.csv"], "drinks.csv"),
    *(([*BACKBONE, "models.py:images", "--mean", mean], "mean") for mean in ("1,2", "1,2,3,4")),
    *(([*BACKBONE, "models.py:images", option, "nan"], "nan") for option in ("--mean", "--std")),
    *(([*BACKBONE, "models.py:images", "--std", std], "--std") for std in ("0", "-1", "1e-60", "1,2")),
    *(([*FIT, "--seconds", seconds], "seconds") for seconds in ("-1", "0", "nan", "inf")),
    *(([*FIT, option, HUGE], option) for option in ("--steps", "--seed")),
    *(([*FIT, "--steps", "2", option, "0"], option) for option in ("--sample", "--patch")),
    ([*FIT, "--steps", "2", "--names", "a,b"], "output_names has 2 names"),
    ([*FIT, "--steps", "2", "--valid", "wide.npz"], "(60, 9)"),
    ([*FIT, "--steps", "2", "--valid", "drinks.csv"], "drinks.csv"),
    ([*FIT_IMAGES, "--patch", HUGE], HUGE),
    *(([*FIT_IMAGES, "--std", std], "--std") for std in ("0", "-1")),
    *(([*FIT_IMAGES, "--segments", name], name) for name in ("gone.npy", "rows.npz", "drinks.csv", "empty")),
    (["fit", "models.py:images", "broken", *STEPS], "4 of 6 files"),
    (["explain", "gone", "rows.npz"], "gone"),
    (["explain", "drinks.csv", "rows.npz"], "drinks.csv"),
    (["explain", "empty", "rows.npz"], "no explainer"),
    (["explain", "fitted", "drinks.csv"], "drinks.csv"),
    (["explain", "fitted", "wide.npz"], "(60, 9)"),
    (["explain", "fitted", "gaps.npz"], "no row of gaps.npz can be explained"),
    *(([*EXPLAIN, "--weights", pair], pair) for pair in ("1", "x,y", "1,2,3", "nan,1")),
    *(([*EXPLAIN, "--outputs", name], name) for name in ("nothing", "99", "-1")),
    *(([*EXPLAIN, "--refine", calls], "refine") for calls in ("0", "-1")),
    *(([*EXPLAIN, option, "-1"], option) for option in ("--top", "--pictures")),
    ([*EXPLAIN, "--errors"], "--calibrate"),
    ([*EXPLAIN, "--alpha", "0"], "alpha"),
    (["weights", "--alpha", "0"], "alpha"),
    (["weights", "--plot", ""], "--plot"),
    (["weights", "--plot", "plot.txt"], "plot.txt"),
    (["weights", "--plot", "drinks.csv/plot.png"], "drinks.csv"),
]


def write_cases(folder: Path) -> None:
    """Write good files and bad ones."""
    write_models(folder)
    write_rows(folder)
    write_pictures(folder, count=12)
    table = write_table(folder).read_bytes()
    (folder / "bad.py").write_text(BAD_MODELS)
    for name, (text, _) in IMPORTS.items():
        (folder / name).write_text(text)
    (folder / "empty").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "loop.csv").symlink_to("loop.csv")
    os.mkfifo(folder / "pipe.csv")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.csv", table)
        archive.writestr("b.csv", table)
    contents = {
        "empty.csv": b"",
        "nul.csv": b"a,kind\n\x001,x\n2,y\n",
        "one.csv": b"kind\nx\ny\n",
        "twice.csv": b"a,a,kind\n1,2,x\n2,3,y\n",
        "header.csv": b"a,town,code,kind\n",
        "wide.csv": table.decode().encode("utf-16"),
        "quote.csv": b'a,kind\n1,"x\n2,y\n',
        "long.csv": b"a,kind\n" + b"z" * 200_000 + b",x\n" + b"z" * 200_000 + b",y\n",
        "cut.csv.gz": gzip.compress(table)[:-20],
        "changed.csv.gz": gzip.compress(table)[:-8] + bytes(8),
        "plain.csv.gz": table,
        "cut.csv.bz2": bz2.compress(table)[:-20],
        "plain.csv.bz2": table,
        "cut.csv.xz": lzma.compress(table)[:-20],
        "plain.csv.xz": table,
        "cut.csv.zip": packed.getvalue()[:-30],
        "two.csv.zip": packed.getvalue(),
        "table.xlsx": table,
        "table.csv.zst": table,
        "words.npz": b"no arrays",
        "cut.npz": (folder / "rows.npz").read_bytes()[:900],
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    arrays = {
        "line": np.zeros(5),
        "complex": np.zeros((60, 4), complex),
        "none": np.zeros((0, 4)),
        "gaps": np.full((60, 4), np.nan),
        "infinite": np.full((60, 4), np.inf),
        "single": np.zeros((1, 4)),
        "wide": np.zeros((60, 9)),
    }
    for name, array in arrays.items():
        np.savez(folder / f"{name}.npz", x=array)
    for number, picture in enumerate(sorted((folder / "pictures").rglob("*.png"))[:6]):
        copy = folder / "broken" / "ab"[number % 2] / picture.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(picture.read_bytes() if number < 2 else b"no picture")


@pytest.fixture(scope="module", autouse=True)
def cases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Go to a folder with all files, and with explainers that were fitted."""
    folder, before = tmp_path_factory.mktemp("cases"), Path.cwd()
    write_cases(folder)
    os.chdir(folder)
    for out, model, data in (
        ("fitted", "bad.py:linear", "rows.npz"),
        ("fitted table", "pipeline.py:model", "drinks.csv"),
    ):
        assert CliRunner().invoke(app, ["fit", model, data, "--out", out, *STEPS]).exit_code == 0
    yield folder
    os.chdir(before)


@pytest.mark.filterwarnings("ignore:.*surrogate decides:UserWarning")
@pytest.mark.parametrize(("arguments", "word"), ROWS, ids=[" ".join(row)[:80] for row, _ in ROWS])
def test_a_bad_command_line_is_refused_in_one_line(arguments: list[str], word: str, cases: Path) -> None:
    before = sorted(cases.rglob("*"))
    asks_for_out = arguments[0] in {"fit", "value", "explain"} and "--out" not in arguments
    result = CliRunner().invoke(app, [*arguments, *(["--out", "out"] if asks_for_out else [])])
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert "Traceback" not in result.stderr
    assert sum(line.startswith("error:") for line in lines) + lines[0].startswith("Usage:") == 1
    assert word in " ".join(result.stderr.replace("│", " ").split())
    after = sorted(path for path in cases.rglob("*") if "__pycache__" not in path.parts)
    assert [path for path in after if path not in before] == []


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zip"])
def test_values_and_explanations_read_the_same_compressed_tables(ending: str, cases: Path) -> None:
    table, name = (cases / "drinks.csv").read_bytes(), f"good {ending}.csv.{ending}"
    if ending == "zip":
        with zipfile.ZipFile(cases / name, "w") as archive:
            archive.writestr("drinks.csv", table)
    else:
        compressed = {"gz": gzip.compress(table), "bz2": bz2.compress(table), "xz": lzma.compress(table)}
        (cases / name).write_bytes(compressed[ending])
    for arguments in (
        ["value", name, "--label", "kind", "--no-report", "--out", f"valued {ending}"],
        ["explain", "fitted table", name, "--pictures", "0", "--out", f"explained {ending}"],
    ):
        assert CliRunner().invoke(app, arguments).exit_code == 0
