"""`fwshapley value` of folders of pictures."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import fwshapley as fw
from cli_cases import run
from fwshapley._internal.files import locked
from fwshapley.cli.input_format import InputFormat
from fwshapley.cli.pictures.features import choose_format
from fwshapley.cli.pictures.files import Look, Size

CLASSES = ("none", "one & only", "two", "three")
WRONG = np.arange(3, 120, 15)
"""Digits that lie in the folder of another class."""

QUICK = ("--steps", "120", "--folds", "3", "--device", "cpu")

BACKBONES = """
import numpy as np
import torch
from torch import nn

pixels = nn.Flatten()
shaped = nn.Identity()


def means(x):
    return np.stack([x.mean((1, 2, 3)), x.std((1, 2, 3))], 1)


def one_row(x):
    return np.zeros((1, 2))


def not_finite(x):
    return np.full((len(x), 2), np.nan)


def words(x):
    return ["cat"] * len(x)


failing = nn.Linear(3, 3)
"""


def write_digits(folder: Path, rows: Sequence[int], wrong: Sequence[int] = ()) -> Path:
    """Write digits as pictures, in the folders of their classes but for some."""
    digits = load_digits()
    chosen = np.flatnonzero(digits.target < len(CLASSES))[list(rows)]
    for row, digit in zip(rows, chosen, strict=True):
        label = (digits.target[digit] + (row in set(wrong))) % len(CLASSES)
        path = folder / CLASSES[label] / f"{row:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.images[digit] * 15).astype(np.uint8)).save(path)
    return folder


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_digits(tmp_path_factory.mktemp("digits") / "digits", range(120), WRONG.tolist())


@pytest.fixture(scope="module")
def valued(digits: Path) -> tuple[str, Path]:
    """What is printed about the digits, and the folder with the results."""
    out = digits.parent / "out"
    code, printed, err = run("value", digits, "--out", out, "--top", "8", *QUICK)
    assert (code, err) == (0, "training 3 networks on 120 pictures: 120 steps in all; Ctrl-C stops, --resume continues")
    return printed, out


def test_pictures_in_the_wrong_folder_are_found(valued: tuple[str, Path]) -> None:
    printed, out = valued
    assert sorted(path.name for path in out.iterdir()) == ["ranking.csv", "report.html", "valuation.safetensors"]
    ranking = pd.read_csv(out / "ranking.csv")
    assert ranking.columns.tolist() == ["rank", "file", "label", "verdict", "suggested", "votes", "value", "stderr"]
    assert len(ranking) == 120
    numbers = ranking.file.str.extract(r"^(?P<label>.*)/(?P<number>\d+)\.png$")
    assert numbers.label.equals(ranking.label)
    assert len(set(numbers.number[:8].astype(int)) & set(WRONG)) >= 7
    assert (ranking.verdict == "another label")[:8].sum() >= 7
    assert not (ranking.label == ranking.suggested).any()
    assert "120 pictures in 4 classes" in printed
    assert "120 pictures of 8 x 8 pixels, gray" in printed
    assert "each of 3 networks predicts pictures that it was not trained on" in printed
    assert ranking.file[0] in printed


def test_values_say_where_they_come_from(valued: tuple[str, Path]) -> None:
    valuation = fw.Valuation.load(valued[1] / "valuation.safetensors")
    ranking = pd.read_csv(valued[1] / "ranking.csv").sort_values("file")
    assert np.allclose(valuation.values, ranking.value)
    assert valuation.classes == tuple(sorted(CLASSES))
    how = valuation.provenance
    assert how["folder"] == "digits"
    assert len(how["files"]) == 32
    assert (how["folds"], how["seed"], how["size"], how["color"]) == (3, 0, "8 x 8", "gray")


def test_the_report_shows_suspects_beside_their_neighbors(valued: tuple[str, Path]) -> None:
    page = (valued[1] / "report.html").read_text(encoding="utf-8")
    ranking = pd.read_csv(valued[1] / "ranking.csv")
    assert len(page) < 3_000_000
    assert re.findall(r"(?:src|href)=.(?!data:)", page) == []
    rows = re.findall(r'<div class="gallery">(.*?)</div>', page)
    assert len(rows) == 8
    for row, file, label in zip(rows, ranking.file, ranking.label, strict=False):
        suspect, *neighbors = re.findall(r"<figcaption>(.*?)</figcaption>", row)
        assert file in html.unescape(suspect)
        assert f"label: {label}" in html.unescape(suspect)
        assert len(neighbors) == 5
        for neighbor in neighbors:
            sign, _, theirs = html.unescape(neighbor).partition(" ")
            assert sign == ("=" if theirs == label else "≠")
        assert row.count("class=marked") == sum(each[0] == "≠" for each in neighbors)
    for heading in ("Most suspicious pictures", "Values", "Classes", "How the data were prepared"):
        assert heading in page


def test_two_valuations_into_one_folder_do_not_replace_each_other(digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with locked(out):
        for more in ([], ["--force"]):
            code, _, err = run("value", digits, "--out", out, "--no-report", *QUICK, *more)
            assert code == 2
            assert f"process {os.getpid()} is already writing to {out}" in err
    assert not out.exists()


def test_there_must_be_training_to_resume(digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, _, err = run("value", digits, "--out", out, "--no-report", *QUICK, "--resume")
    assert code == 2
    assert "--resume has nothing to resume" in err
    assert not out.exists()
    out.mkdir()
    (out / "checkpoints").touch()
    code, _, err = run("value", digits, "--out", out, "--no-report", *QUICK)
    assert code == 2
    assert "checkpoints is a file: choose another folder for --out" in err


def test_training_that_was_stopped_goes_on(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["value", digits, "--out", tmp_path / "out", "--no-report", *QUICK]

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("fwshapley.cli.value.inspect", stop)
        code, _, err = run(*arguments)
    assert code == 130
    assert "Run the same command with --resume to continue" in err
    code, _, err = run(*arguments)
    assert code == 2
    assert "contains training that was stopped: continue with --resume, or start again with --force" in err
    (tmp_path / "out" / "checkpoints" / "mine.txt").write_text("mine")
    with monkeypatch.context() as patched:
        patched.setattr("fwshapley.cli.value.read_folders", stop)
        assert run(*arguments, "--force")[0] == 130
        assert [path.name for path in (tmp_path / "out" / "checkpoints").iterdir()] == ["mine.txt"]
        patched.undo()
        patched.setattr("fwshapley.cli.value.inspect", stop)
        assert run(*arguments)[0] == 130
    monkeypatch.setattr("fwshapley.training.loop._Run.step", stop)  # all is trained already
    assert run(*arguments, "--resume")[0] == 0
    assert [path.name for path in (tmp_path / "out" / "checkpoints").iterdir()] == ["mine.txt"]


def test_a_reference_folder_is_what_pictures_are_valued_by(digits: Path, tmp_path: Path) -> None:
    reference = write_digits(tmp_path / "trusted", range(120, 160))
    arguments = ["-r", reference, "-o", tmp_path / "out", "--no-report", "--top", "8", *QUICK]
    code, printed, _ = run("value", digits, *arguments)
    assert code == 0
    assert "helps to predict the 40 pictures of trusted" in printed
    files = pd.read_csv(tmp_path / "out" / "ranking.csv").file
    assert len(set(files.str[-7:-4].astype(int)[:10]) & set(WRONG)) >= 7


@pytest.fixture
def backbones(tmp_path: Path) -> Path:
    path = tmp_path / "backbones.py"
    path.write_text(BACKBONES)
    return path


@pytest.mark.parametrize(("name", "outputs"), [("pixels", 64), ("shaped", 64), ("means", 2)])
def test_features_of_a_backbone(name: str, outputs: int, backbones: Path, digits: Path, tmp_path: Path) -> None:
    arguments = ["--backbone", f"{backbones}:{name}", "--mean", "0.5", "--std", "0.25", "--no-report"]
    code, printed, err = run("value", digits, "-o", tmp_path / "out", *arguments)
    assert (code, err) == (0, "")
    assert f"Features: {outputs} outputs of" in printed
    if name != "means":
        valuation = fw.Valuation.load(tmp_path / "out" / "valuation.safetensors")
        files = sorted(digits.rglob("*.png"))
        pixels = np.stack([np.asarray(Image.open(file), np.float32) for file in files]) / 255
        expected = fw.value_neighbors((pixels - 0.5) / 0.25, [file.parent.name for file in files])
        assert np.allclose(valuation.values, expected.values)
        assert valuation.provenance["features"] == f"{backbones}:{name}"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("one_row", "must return a row of features for each image, it returned shape (1, 2) for 64 images"),
        ("not_finite", "must return finite features, it did not for image 0"),
        ("words", "must return numbers, it returned list"),
        ("failing", "failed on images of shape (1, 8, 8) (channels, height, width)"),
        ("nothing", "has no 'nothing'"),
    ],
)
def test_backbones_that_give_no_features_are_explained(
    name: str, complaint: str, backbones: Path, digits: Path, tmp_path: Path
) -> None:
    code, _, err = run("value", digits, "-o", tmp_path / "out", "--backbone", f"{backbones}:{name}")
    assert code == 2
    assert complaint in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--label", "kind"], "--label is for tables"),
        (["--ignore", "a"], "--ignore is for tables"),
        (["--mean", "0.5"], "--mean is for a --backbone: networks that this command trains standardize"),
        (["--no-scale"], "--no-scale is for a --backbone"),
        (["--backbone", "a:b", "--seed", "0"], "--seed is for networks that are trained on the pictures"),
        (["--folds", "40"], "--folds 40 needs 40 pictures per class"),
        (["--folds", "1"], "--folds"),
        (["--seconds", "0"], "seconds must be positive"),
        (["--size", "axb"], "--size must be HEIGHTxWIDTH, such as 32x32; got axb"),
        (["-k", "120"], "--k must be at most 119, the number of pictures to choose from; got 120"),
        (["--reference", "nowhere"], "there is no folder nowhere"),
        (["--device", "tpu9"], "--device 'tpu9' cannot be used"),
    ],
)
def test_options_that_cannot_be_are_explained_before_any_work(
    arguments: list[str], complaint: str, digits: Path, tmp_path: Path
) -> None:
    code, _, err = run("value", digits, "-o", tmp_path / "out", *arguments)
    assert code == 2
    assert complaint in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "option", [["--backbone", "a:b"], ["--size", "8"], ["--rgb"], ["--folds", "3"], ["--seed", "1"], ["--resume"]]
)
def test_options_of_pictures_are_not_for_tables(option: list[str], tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,y\n1,p\n2,q\n")
    code, _, err = run("value", tmp_path / "table.csv", "-l", "y", "-o", tmp_path / "out", *option)
    assert code == 2
    assert "is for folders of pictures" in err


def test_a_folder_of_mostly_damaged_pictures_is_refused(tmp_path: Path) -> None:
    """Some that are no pictures at all, and some whose pixels are cut off, which a look at their first bytes misses."""
    pictures = write_digits(tmp_path / "digits", range(40))
    files = sorted(pictures.rglob("*.png"))
    for number, file in enumerate(files[:22]):
        file.write_bytes(b"no picture" if number % 2 else file.read_bytes()[:60])
    code, _, err = run("value", pictures, "-o", tmp_path / "out", *QUICK)
    assert code == 2
    assert "22 of 40 files cannot be read as pictures" in err
    assert ", ".join(str(file.relative_to(pictures)) for file in files[:10]) + " and 12 more" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("cut", [10, 60])
def test_damaged_pictures_are_skipped_and_named(cut: int, tmp_path: Path) -> None:
    folder = write_digits(tmp_path / "digits", range(40))
    victim = next(folder.rglob("*.png"))
    victim.write_bytes(victim.read_bytes()[:cut])
    name, out = str(victim.relative_to(folder)), tmp_path / "out"
    code, said, err = run("value", folder, "-o", out, *QUICK)
    assert code == 0
    told = f"1 of 40 files cannot be read and were skipped: {name}"
    assert told in err
    assert f"• {told}" in said
    valuation = fw.Valuation.load(out / "valuation.safetensors")
    assert len(valuation.values) == 39
    assert valuation.provenance["skipped"] == [name]
    assert name not in (out / "ranking.csv").read_text()


def test_a_class_without_a_picture_that_can_be_read_is_refused(tmp_path: Path) -> None:
    folder = write_digits(tmp_path / "digits", range(40))
    label = next(each for each in sorted(folder.iterdir()))
    for file in label.iterdir():
        file.write_bytes(b"no picture")
    code, _, err = run("value", folder, "-o", tmp_path / "out", *QUICK)
    assert code == 2
    assert f"no picture of {label.name}" in err


@pytest.mark.parametrize(
    ("sizes", "grays", "size", "color", "notes"),
    [
        ([(8, 8)], 9, (8, 8), "gray", []),
        ([(480, 640)], 0, (24, 32), "rgb", ["resized from 480 x 640 to 24 x 32 pixels; --size gives another"]),
        ([(8, 8), (9, 9)], 9, (32, 32), "gray", ["resized from 2 different sizes to 32 x 32 pixels"]),
        ([(8, 8)], 1, (8, 8), "rgb", ["1 picture in gray, the others in color: all are read as rgb"]),
    ],
)
def test_pictures_get_one_size_and_color(
    sizes: list[tuple[int, int]], grays: int, size: tuple[int, int], color: str, notes: list[str]
) -> None:
    look = Look(frozenset(Size(*each) for each in sizes), grays, "gray" if grays == 9 else "rgb")
    wanted, told = choose_format(InputFormat(), look, 9, trained=True)
    assert (wanted.size, wanted.color) == (size, color)
    assert len(told) == len(notes)
    assert all(each.startswith(note) for each, note in zip(told, notes, strict=True))
    assert choose_format(InputFormat(), look, 9, trained=False)[0].size is None
    assert choose_format(InputFormat(size=Size(7, 7)), look, 9, trained=True)[0].size == (7, 7)
