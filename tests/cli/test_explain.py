from __future__ import annotations

import json
import os
import re
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from typer.testing import CliRunner

import fwshapley as fw
from cli_cases import Classifier, export, run, write_models, write_pictures, write_rows, write_table
from fwshapley._internal.files import locked
from fwshapley.cli import app
from fwshapley.cli import explanation_files as explanations
from fwshapley.explanation.learned.quality import Score

STEPS = ("--steps", "10", "--device", "cpu")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table, and an explainer of a pipeline that was fitted on it."""
    folder = tmp_path_factory.mktemp("table")
    path = write_table(folder)
    assert run("fit", f"{folder / 'pipeline.py'}:model", path, "--out", folder / "explainer", *STEPS)[0] == 0
    return folder


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with rows of numbers, and an explainer of a torch module."""
    folder = tmp_path_factory.mktemp("rows")
    arguments = ["--out", folder / "explainer", "--names", "cat,dog,bird"]
    assert run("fit", f"{write_models(folder)}:rows", write_rows(folder), *arguments, *STEPS)[0] == 0
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with pictures, and an explainer of a torch module that wants them normalized."""
    folder = tmp_path_factory.mktemp("images")
    arguments = ["--out", folder / "explainer", "--patch", "4", "--mean", "0.5", "--std", "0.25"]
    assert run("fit", f"{write_models(folder)}:images", write_pictures(folder), *arguments, *STEPS)[0] == 0
    return folder


def image_model(folder: Path) -> torch.nn.Module:
    """Return the model that the explainer of images is of."""
    model = runpy.run_path(str(folder / "models.py"))["images"]
    assert isinstance(model, torch.nn.Module)
    return model


def test_rows_of_a_csv_file(table: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("code,extra,town,a\n1,?,Rome,0.5\n\n2,?,Oslo,-1\n")
    arguments = ["--weights", "16,1", "-w", "1,1", "--outputs", "all", "--out", tmp_path / "out"]
    code, said, err = run("explain", table / "explainer", tmp_path / "new.csv", *arguments)
    assert (code, err) == (0, "")
    for text in (
        "new.csv: 2 rows",
        "1 blank row skipped",
        "raw Beta(16, 1), Shapley values of 3 players for 2 inputs, by the network:",
        "quality: not measured by the fit",
        "ms",
    ):
        assert text in said
    assert "written to" in said
    values = pd.read_csv(tmp_path / "out" / "values.csv")
    known = ["file", "row", "weights", "output", "base_value", "surrogate_prediction", "surrogate_class"]
    assert values.columns.tolist() == [*known, "a", "town", "code"]
    assert values.row.tolist() == [2] * 4 + [4] * 4
    assert values.weights.tolist() == ["Beta(16, 1)", "Beta(16, 1)", "Shapley", "Shapley"] * 2
    assert values.output.tolist() == ["coffee", "tea"] * 4
    frame = pd.DataFrame({"a": [0.5, -1.0], "town": ["Rome", "Oslo"], "code": ["1", "2"]})
    expected = fw.load(table / "explainer", device="cpu").explain(frame, weights=fw.Shapley(), outputs="all").values
    found = values[values.weights == "Shapley"][["a", "town", "code"]].to_numpy().reshape(2, 2, 3)
    assert np.allclose(found, expected.transpose(1, 2).numpy(), atol=1e-6)
    pictures = sorted(path.name for path in (tmp_path / "out" / "pictures").iterdir())
    assert pictures == ["row_2.png", "row_4.png"]


@pytest.mark.filterwarnings("ignore::fwshapley.explanation.QualityWarning")
def test_values_are_sampled_if_the_network_was_measured_to_be_poor(table: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(table / "drinks.csv", dtype={"code": str})
    explainer = fw.load(table / "explainer", device="cpu")
    quality = explainer.measure_quality(frame, progress=False)
    poor = tuple(replace(row, network=Score(correlation=0.1, error=0.99, stderr=0.01)) for row in quality.scores)
    explainer._fitted = replace(explainer.fitted_, quality=replace(quality, scores=poor))  # noqa: SLF001 - no other way
    explainer.save(tmp_path / "poor")
    arguments = ["explain", tmp_path / "poor", table / "drinks.csv", "--device", "cpu"]
    code, said, _ = run(*arguments)
    assert code == 0
    assert re.search("for 60 inputs, (sampled|refined) with 8 calls per input", said)
    assert "the network, which takes one pass, is not good enough: on 60 held-out inputs" in said
    code, said, _ = run(*arguments, "--method", "network")
    assert code == 0
    assert "for 60 inputs, by the network (relative error 0.99 on held-out inputs)" in said
    assert "warning: hardly better than zeros or than means of a class: on 60 held-out inputs" in said


def test_what_is_predicted_is_asked_of_the_model_where_it_is_given(table: Path) -> None:
    arguments = ["explain", table / "explainer", table / "drinks.csv", "--device", "cpu", "--outputs", "predicted"]
    code, said, _ = run(*arguments)
    assert code == 0
    assert "outputs: predicted by the surrogate, which agrees with the model on" in said
    code, said, _ = run(*arguments, "--model", f"{table / 'pipeline.py'}:model")
    assert code == 0
    assert "outputs: predicted by the model" in said
    assert "predicted by the surrogate" not in said


OTHERWISE = """
import numpy as np


def score(x):
    \"\"\"What the surrogate of no other model would say.\"\"\"
    return np.stack([x["a"] > 0, x["a"] <= 0], 1).astype(float)
"""


def test_inputs_that_the_surrogate_decides_otherwise_are_warned_of(table: Path, tmp_path: Path) -> None:
    (tmp_path / "otherwise.py").write_text(OTHERWISE)
    frame = pd.read_csv(table / "drinks.csv", dtype={"code": str})
    explainer = fw.load(table / "explainer", device="cpu")
    said = explainer.predictions(frame).surrogate.argmax(1).numpy()
    otherwise = said != (frame.a <= 0).to_numpy()
    chosen = np.sort([*np.flatnonzero(otherwise)[:2], *np.flatnonzero(~otherwise)[:3]])
    frame.iloc[chosen].to_csv(tmp_path / "few.csv", index=False)
    arguments = ["--model", f"{tmp_path / 'otherwise.py'}:score", "--device", "cpu", "--pictures", "0"]
    arguments += ["--outputs", "predicted"]
    code, told, _ = run("explain", table / "explainer", tmp_path / "few.csv", *arguments, "--out", tmp_path / "out")
    assert code == 0
    names = ["coffee", "tea"]
    for place, row in enumerate(chosen):
        model, surrogate = names[int(frame.a[row] <= 0)], names[said[row]]
        warning = (
            f"row {place + 2}: the model predicts {model}, the surrogate {surrogate}: do not trust this explanation"
        )
        assert (warning in told) == otherwise[row]
    values = pd.read_csv(tmp_path / "out" / "values.csv")
    assert values.output.tolist() == values.model_class.tolist()
    assert (values.model_class != values.surrogate_class).tolist() == otherwise[chosen].tolist()
    assert np.allclose(values.model_prediction, 1)
    assert ((values.surrogate_prediction > 0.5) == (values.model_class == values.surrogate_class)).all()
    code, told, _ = run("explain", table / "explainer", table / "drinks.csv", *arguments)
    assert f"for {otherwise.sum()} of 60 inputs: do not trust the explanations of" in told


def test_arrays_are_read_without_pickle(rows: Path, tmp_path: Path) -> None:
    arguments = ["--alpha", "4", "--outputs", "dog,0", "--format", "npz", "--pictures", "0", "--total", "efficient"]
    inputs = [rows / "rows.npz", write_rows(tmp_path, count=3)]
    code, said, err = run("explain", rows / "explainer", *inputs, *arguments, "--out", tmp_path / "out", "--top", "61")
    assert (code, err) == (0, "")
    assert "row 1 of rows.npz" in said
    assert "row numbers: counted from 0" in said
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["explain.json", "values.npz"]
    with np.load(tmp_path / "out" / "values.npz", allow_pickle=False) as file:
        found = dict(file)
    assert found["values"].shape == (1, 63, 4, 2)
    assert found["outputs"][0].tolist() == [1, 0]
    assert found["output_names"].tolist() == ["cat", "dog", "bird"]
    assert found["players"].tolist() == [f"column {number}" for number in range(4)]
    assert found["weights"].tolist() == ["Beta(4, 1)"]
    assert str(found["total"]) == "efficient"
    assert found["rows"].tolist() == [*range(60), *range(3)]
    assert found["base_values"].shape == (63, 2)
    assert found["surrogate_prediction"].shape == (63, 3)
    assert "model_prediction" not in found
    x = np.load(rows / "rows.npz")["x"]
    explainer = fw.load(rows / "explainer", device="cpu")
    expected = explainer.explain(x, weights=fw.Beta(4, 1), outputs=[1, 0], total="efficient")
    assert np.allclose(found["values"][0, :60], expected.values.numpy(), atol=1e-6)


def test_pictures_need_the_model_and_are_read_as_fitted(images: Path, tmp_path: Path) -> None:
    model = f"{images / 'models.py'}:images"
    arguments = ["explain", images / "explainer", images / "pictures", "--device", "cpu"]
    code, said, err = run(*arguments)
    assert (code, said) == (2, "")
    assert f"give --model {model}, a module of the same architecture, trained or not" in err
    assert "a folder must not choose which code runs" in err
    code, said, err = run(*arguments, "--model", model, "--out", tmp_path / "out", "--pictures", "2")
    assert (code, err) == (0, "")
    assert "40 pictures of 8 x 8 pixels, gray" in said
    assert "patches are (row, column), from 0; 40 inputs in all" in said
    assert "values.npz, 2 pictures in pictures" in said
    pictures = sorted((tmp_path / "out" / "pictures").iterdir())
    assert [path.name for path in pictures] == ["a_000.png", "a_002.png"]
    assert pictures[0].read_bytes().startswith(b"\x89PNG")
    with np.load(tmp_path / "out" / "values.npz", allow_pickle=False) as file:
        assert file["files"][:2].tolist() == ["a/000.png", "a/002.png"]
        assert file["assignment"].shape == (8, 8)
        found = file["values"][0, 0, :, 0]
        output = int(file["outputs"][0, 0])
    pixels = np.asarray(Image.open(images / "pictures" / "a" / "000.png"), dtype=np.float32) / 255
    sys.path.insert(0, str(images))
    explainer = fw.load(images / "explainer", model=_image_model(images), device="cpu")
    sys.path.remove(str(images))
    expected = explainer.explain((pixels[None, None] - 0.5) / 0.25, outputs=[output]).values[0, :, 0]
    assert np.allclose(found, expected.numpy(), atol=1e-6)


def test_titles_of_pictures_tell_the_file_and_what_the_model_predicts(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    plot = fw.Attribution.plot

    def keep(*shown: Any, **options: Any) -> Figure:  # noqa: ANN401 - of `plot`
        drawn.append(plot(*shown, **options))
        return drawn[-1]

    monkeypatch.setattr(fw.Attribution, "plot", keep)
    arguments = ["--model", f"{images / 'models.py'}:images", "--out", tmp_path / "out", "--pictures", "2"]
    code, _, err = run("explain", images / "explainer", images / "pictures", *arguments, "--device", "cpu")
    assert (code, err) == (0, "")
    assert [figure.get_suptitle() for figure in drawn] == ["a/000.png", "a/002.png"]
    with np.load(tmp_path / "out" / "values.npz", allow_pickle=False) as file:
        shares = [file["model_prediction"][row, file["outputs"][row, 0]] for row in range(2)]
        names = [file["output_names"][file["outputs"][row, 0]] for row in range(2)]
    titles = [figure.axes[0].get_title().split("\n") for figure in drawn]
    assert [title[0] for title in titles] == names
    told = [float(title[1].removeprefix("model: ").removesuffix(" %")) for title in titles]
    assert told == pytest.approx([100 * share for share in shares], rel=0.05)


def _image_model(folder: Path) -> torch.nn.Module:
    space: dict[str, torch.nn.Module] = {}
    exec((folder / "models.py").read_text(), space)  # noqa: S102 - a test's own file
    return space["images"]


def test_single_pictures_of_another_size_and_color(images: Path, tmp_path: Path) -> None:
    model = f"{images / 'models.py'}:image_model()"
    for name in ("one", "two"):
        write_pictures(tmp_path / name, count=1, size=20, mode="RGB")
    files = [tmp_path / name / "pictures" / "a" / "000.png" for name in ("one", "two")]
    arguments = ["--model", model, "--format", "csv", "--out", tmp_path / "out", "--device", "cpu"]
    code, said, err = run("explain", images / "explainer", *files, *arguments)
    assert (code, err) == (0, "")
    assert "2 pictures of 8 x 8 pixels, gray" in said
    values = pd.read_csv(tmp_path / "out" / "values.csv")
    predicted = [f"{who}_{what}" for who in ("model", "surrogate") for what in ("prediction", "class")]
    assert values.columns.tolist()[:9] == ["file", "weights", "output", "base_value", *predicted, "(0, 0)"]
    assert sorted(path.name for path in (tmp_path / "out" / "pictures").iterdir()) == ["000.png", "000_2.png"]


def test_names_of_files_are_printed_in_one_piece(images: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a folder whose name is long"
    pictures = write_pictures(folder, count=2)
    long = pictures / "b" / f"{'a name with blanks ' * 6}.png"
    (pictures / "b" / "001.png").rename(long)
    model = f"{write_models(tmp_path)}:images"
    result = CliRunner().invoke(app, ["explain", str(images / "explainer"), str(pictures), "--model", model])
    assert result.exit_code == 0
    assert any(f"b/{long.name}" in line for line in result.stdout.splitlines())
    broken = pictures / "a" / f"{'broken ' * 20}.png"
    broken.write_bytes(b"no picture")
    result = CliRunner().invoke(
        app, ["explain", str(images / "explainer"), str(pictures), "--model", model, "-o", str(tmp_path / "o")]
    )
    assert result.exit_code == 0
    assert any(f"a/{broken.name}" in line for line in result.stderr.splitlines())
    assert json.loads((tmp_path / "o" / "explain.json").read_text())["skipped"] == [f"a/{broken.name}"]
    result = CliRunner().invoke(app, ["explain", str(images / "explainer"), str(broken), "--model", model])
    assert result.exit_code == 2
    assert f"{broken} cannot be read as a picture" in result.stderr


def test_an_exported_program_needs_no_model(tmp_path: Path) -> None:
    path, pictures = export(tmp_path / "model.pt2", Classifier()), write_pictures(tmp_path)
    assert run("fit", path, pictures, "--patch", "4", "--out", tmp_path / "explainer", *STEPS)[0] == 0
    assert run("explain", tmp_path / "explainer", pictures, "--device", "cpu")[0] == 0
    assert run("explain", tmp_path / "explainer", pictures, "--model", path, "--device", "cpu")[0] == 0
    arrays = np.random.default_rng(0).random((3, 1, 8, 8))
    np.savez(tmp_path / "arrays.npz", x=arrays)
    code, said, _ = run("explain", tmp_path / "explainer", tmp_path / "arrays.npz", "--device", "cpu")
    assert code == 0
    assert "the explainer was fitted with bytes" in said
    np.savez(tmp_path / "arrays.npz", x=np.repeat(arrays, 3, axis=1))
    code, _, err = run("explain", tmp_path / "explainer", tmp_path / "arrays.npz")
    assert code == 2
    assert "have 3 channels, expected 1" in err


def test_an_explainer_that_python_saved(table: Path, rows: Path, images: Path, tmp_path: Path) -> None:
    inputs = {table: "drinks.csv", rows: "rows.npz", images: "pictures"}
    for folder, name in inputs.items():
        model = ["--model", f"{folder / 'models.py'}:images"] if folder == images else []
        saved = tmp_path / folder.name
        loaded = fw.load(folder / "explainer", model=image_model(images) if folder == images else None, device="cpu")
        loaded.metadata = None
        loaded.save(saved)
        code, said, err = run("explain", saved, folder / name, *model, "--device", "cpu")
        assert (code, err) == (0, "")
        assert "the input format is a guess" in said


def test_how_inputs_are_read_is_tied_to_the_explainer(images: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    arguments = [f"{images / 'models.py'}:images", images / "pictures", "--patch", "4", "--out", plain, *STEPS]
    assert run("fit", *arguments)[0] == 0
    moved = {"normalized": images / "explainer", "as they are": plain}
    for name, folder in moved.items():  # all that there is, each in place of the other
        files = list(folder.iterdir())
        assert [path.name for path in files] == ["explainer.safetensors"]
        (tmp_path / name).mkdir()
        (tmp_path / name / files[0].name).write_bytes(files[0].read_bytes())
        model = ["--model", f"{images / 'models.py'}:images", "--device", "cpu"]
        code, said, _ = run("explain", tmp_path / name, images / "pictures", *model)
        assert code == 0
        assert ("normalized with mean 0.5, std 0.25" in said) == (name == "normalized")
        assert "guess" not in said


def test_an_explainer_that_python_loads_and_saves_keeps_how_inputs_are_read(images: Path, tmp_path: Path) -> None:
    loaded = fw.load(images / "explainer", model=image_model(images), device="cpu")
    loaded.save(tmp_path)
    code, said, _ = run("explain", tmp_path, images / "pictures", "--model", f"{images / 'models.py'}:images")
    assert code == 0
    assert "normalized with mean 0.5, std 0.25" in said
    x = torch.randn(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    loaded.fit(x, budget=fw.Budget(steps=1), progress=False)
    assert loaded.metadata is None  # its inputs were read by others


def test_other_weightings_than_the_one_learned_are_refused(rows: Path, tmp_path: Path) -> None:
    arguments = ["--objective", "kernel", "--alpha", "4", "--out", tmp_path / "explainer", *STEPS]
    assert run("fit", f"{rows / 'models.py'}:rows", rows / "rows.npz", *arguments)[0] == 0
    code, said, _ = run("explain", tmp_path / "explainer", rows / "rows.npz")
    assert code == 0
    assert "efficient Beta(4, 1) values of 4 players" in said
    code, _, err = run("explain", tmp_path / "explainer", rows / "rows.npz", "--alpha", "2")
    assert code == 2
    assert "Beta(4, 1)" in err


@pytest.mark.parametrize(
    ("inputs", "arguments", "complaint"),
    [
        (["nowhere.npz"], [], "there is no file"),
        (["models.py"], [], "cannot be read: inputs are"),
        (
            ["rows.npz"],
            ["--outputs", "cats"],
            "there is no output 'cats' (did you mean 'cat'?); the outputs are cat, dog",
        ),
        (["rows.npz"], ["--outputs", "3"], "there is no output '3'"),
        (["rows.npz"], ["--alpha", "-1"], "alpha must be positive"),
        (["rows.npz"], ["--alpha", "2", "--weights", "1,1"], "--weights several: use one of the two"),
        (["rows.npz"], ["--weights", "1"], "--weights must be alpha and beta, such as 16,1; got 1"),
        (["rows.npz"], ["--model", "MODELS:last_channels"], "explains a torch module, and"),
        (["rows.npz", "picture.png"], [], "contains pictures"),
        (["picture.png"], [], "picture.png contains images, and the explainer takes an .npz file of rows"),
        (["other.npz"], [], "(batch, 4)"),
        (["rows.npz", "other.npz"], [], "inputs of different shapes"),
    ],
)
def test_what_cannot_be_explained(
    rows: Path, inputs: list[str], arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    np.savez(rows / "other.npz", x=np.zeros((2, 5)))
    Image.new("L", (8, 8)).save(rows / "picture.png")
    paths = [rows / name for name in inputs]
    arguments = [each.replace("MODELS", str(rows / "models.py")) for each in arguments]
    code, _, err = run("explain", rows / "explainer", *paths, *arguments, "--out", tmp_path / "out")
    assert code == 2
    assert complaint in err
    assert not (tmp_path / "out").exists()


def test_folders_without_an_explainer(tmp_path: Path, rows: Path) -> None:
    code, _, err = run("explain", tmp_path / "nowhere", rows / "rows.npz")
    assert code == 2
    assert "there is no folder" in err
    code, _, err = run("explain", tmp_path, rows / "rows.npz")
    assert code == 2
    assert "contains no explainer (explainer.safetensors): make one with fwshapley fit" in err
    (tmp_path / "explainer.safetensors").write_bytes((rows / "explainer" / "explainer.safetensors").read_bytes())
    content = (tmp_path / "explainer.safetensors").read_bytes()
    assert content.count(b"fwshapley fit") == 1
    (tmp_path / "explainer.safetensors").write_bytes(content.replace(b"fwshapley fit", b"fwshapley fat"))
    code, _, err = run("explain", tmp_path, rows / "rows.npz")
    assert code == 2
    assert "explainer.safetensors is damaged" in err


def test_tables_that_do_not_fit(table: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("town,a\nRome,0.5\n")
    code, _, err = run("explain", table / "explainer", tmp_path / "new.csv")
    assert code == 2
    assert "has no column 'code'" in err
    (tmp_path / "new.csv").write_text("town,a,code\nParis,0.5,1\n")
    code, _, err = run("explain", table / "explainer", tmp_path / "new.csv")
    assert code == 2
    assert "no row of new.csv can be explained: row 2: 'Paris' in column 'town' is an unknown category" in err


def test_errors_count_rows_as_answers_do(table: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("town,a,code\nRome,0.5,1\n\nOslo,0.5,1\n")
    bad.write_text("town,a,code\nParis,0.5,1\n\nOslo,abc,1\n")
    code, said, _ = run("explain", table / "explainer", good, "--device", "cpu")
    assert code == 0
    assert "row numbers: as in a spreadsheet, the header is row 1" in said
    assert "row 4" in said
    code, _, err = run("explain", table / "explainer", bad)
    assert code == 2
    assert "row 4: 'abc' in column 'a' is not a number" in err
    code, said, _ = run("explain", table / "explainer", good, bad, "--device", "cpu")
    assert code == 0
    assert "2 of 4 rows cannot be explained and are skipped: row 2 of bad.csv: 'Paris' in column 'town'" in said
    assert "row 4 of bad.csv: 'abc' in column 'a' is not a number" in said


def test_explanations_are_replaced_only_by_force(rows: Path, tmp_path: Path) -> None:
    arguments = ["explain", rows / "explainer", rows / "rows.npz", "--out", tmp_path / "out", "--pictures", "1"]
    assert run(*arguments)[0] == 0
    code, said, err = run(*arguments)
    assert (code, said) == (2, "")
    assert (
        "already has values.csv, importance.png, beeswarm.png, pictures, explain.json: replace them with --force" in err
    )
    assert run(*arguments, "--force")[0] == 0


def test_two_explanations_into_one_folder_do_not_replace_each_other(rows: Path, tmp_path: Path) -> None:
    arguments = ["explain", rows / "explainer", rows / "rows.npz", "--out", tmp_path / "out", "--pictures", "0"]
    with locked(tmp_path / "out"):
        for more in ([], ["--force"]):
            code, _, err = run(*arguments, *more)
            assert code == 2
            assert f"process {os.getpid()} is already writing to {tmp_path / 'out'}" in err
    assert run(*arguments)[0] == 0


def names_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_force_removes_what_the_run_before_wrote_and_nothing_else(rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["explain", rows / "explainer", rows / "rows.npz", "--out", out, "--force", "--device", "cpu"]
    assert run(*arguments, "--format", "npz", "--pictures", "3")[0] == 0
    pictures = ["pictures/row_0.png", "pictures/row_1.png", "pictures/row_2.png"]
    assert names_below(out) == ["beeswarm.png", "explain.json", "importance.png", *pictures, "values.npz"]
    (out / "pictures" / "mine.png").write_text("mine")
    assert run(*arguments, "--format", "csv", "--pictures", "1")[0] == 0
    pictures = ["pictures/mine.png", "pictures/row_0.png"]
    assert names_below(out) == ["beeswarm.png", "explain.json", "importance.png", *pictures, "values.csv"]
    (out / "pictures" / "mine.png").unlink()
    (out / "values.npz").write_text("mine")
    assert run(*arguments, "--format", "csv", "--pictures", "0")[0] == 0
    assert names_below(out) == ["explain.json", "values.csv", "values.npz"]
    assert not (out / "pictures").exists()


@pytest.mark.parametrize(
    "record",
    [
        '{"files": ["../mine.txt", "notes.txt", "pictures/../notes.txt", "/etc/hosts", "pictures"]}',
        '{"files": [3]}',
        "[]",
        "{",
    ],
)
def test_a_record_cannot_name_what_we_never_write(record: str, rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "pictures").mkdir(parents=True)
    for path in (tmp_path / "mine.txt", out / "notes.txt"):
        path.write_text("mine")
    (out / "explain.json").write_text(record)
    arguments = ["explain", rows / "explainer", rows / "rows.npz", "--out", out, "--force", "--pictures", "0"]
    assert run(*arguments)[0] == 0
    assert names_below(tmp_path) == ["mine.txt", "out/explain.json", "out/notes.txt", "out/values.csv"]


def test_a_stop_by_force_keeps_what_was_there(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "out"
    arguments = ["explain", rows / "explainer", rows / "rows.npz", "--out", out, "--pictures", "1"]
    assert run(*arguments)[0] == 0
    before = {name: (out / name).read_bytes() for name in names_below(out)}
    monkeypatch.setattr(fw.Attribution, "plot", stop)
    assert run(*arguments, "--format", "npz", "--force")[0] == 130
    assert {name: (out / name).read_bytes() for name in names_below(out)} == before


@pytest.mark.parametrize(("kind", "code"), [(KeyboardInterrupt, 130), (OSError, 2)])
def test_a_stop_while_writing_leaves_nothing(
    kind: type[BaseException], code: int, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise kind("no more")

    monkeypatch.setattr(fw.Attribution, "plot", stop)
    assert run("explain", rows / "explainer", rows / "rows.npz", "--out", tmp_path / "out")[0] == code
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_there_is_advice(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    arguments = ["explain", rows / "explainer", rows / "rows.npz", "--out", tmp_path / "out"]
    code, _, err = run(*arguments)
    assert code == 2
    assert "pip install 'fwshapley[plots]'; or do without pictures: --pictures 0" in err
    assert run(*arguments, "--pictures", "0")[0] == 0


def test_columns_named_as_ours_are_told_apart(tmp_path: Path) -> None:
    pd.DataFrame({"row": np.arange(20), "output": np.arange(20) % 3}).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "net.py").write_text("def score(x):\n    return x['row'] - x['output']\n")
    out = tmp_path / "explainer"
    assert run("fit", f"{tmp_path / 'net.py'}:score", tmp_path / "t.csv", "--out", out, *STEPS)[0] == 0
    arguments = ["--out", tmp_path / "out", "--pictures", "0", "--top", "0"]
    assert run("explain", out, tmp_path / "t.csv", *arguments)[0] == 0
    values = pd.read_csv(tmp_path / "out" / f"{explanations.VALUES}.csv")
    assert values.columns.tolist()[-2:] == ["row (player)", "output (player)"]


def test_help_says_how_to_start() -> None:
    code, said, _ = run("explain", "--help")
    assert code == 0
    assert "fwshapley explain forest.py:model test.csv --background train.csv" in said
    assert "fwshapley explain explainer test.csv --out explanations" in said


@pytest.fixture(scope="module")
def calibrated(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an explainer that knows how far off it is."""
    folder = tmp_path_factory.mktemp("calibrated")
    arguments = ["--names", "cat,dog,bird", "--valid", write_rows(folder, count=12), "--calibrate", *STEPS]
    code, said, _ = run(
        "fit", f"{rows / 'models.py'}:rows", rows / "rows.npz", "--out", folder / "explainer", *arguments
    )
    assert code == 0
    assert "Errors calibrated for 9 semivalues on 12 inputs not trained on. On half of them, expected" in said
    return folder


def test_refined_values_are_written_with_their_standard_errors(rows: Path, tmp_path: Path) -> None:
    asked = ["explain", rows / "explainer", write_rows(tmp_path, count=2), "--refine", "16", "--outputs", "all"]
    code, said, err = run(*asked, "--out", tmp_path / "csv", "--alpha", "4", "--device", "cpu")
    assert (code, err) == (0, "")
    assert "refined with 16 calls per input: standard error 0 (root mean square)" in said  # 16 are all coalitions
    assert "± is a standard error" in said
    table = pd.read_csv(tmp_path / "csv" / "values.csv")
    names = [f"column {number}" for number in range(4)]
    assert table.columns.tolist()[-8:] == [*names, *(f"{name} (stderr)" for name in names)]
    x, weights = np.load(tmp_path / "rows.npz")["x"], fw.Beta(4, 1)
    explainer = fw.load(rows / "explainer", device="cpu")
    exact = torch.stack([fw.exact_values(explainer.game(each), weights, progress=False) for each in x])
    assert np.allclose(table[names].to_numpy().reshape(2, 3, 4), exact.transpose(1, 2), atol=1e-6)
    assert run(*asked, "--out", tmp_path / "npz", "--format", "npz", "--pictures", "0")[0] == 0
    with np.load(tmp_path / "npz" / "values.npz", allow_pickle=False) as file:
        assert file["stderr"].shape == file["values"].shape == (1, 2, 4, 3)
        assert "expected_error" not in file


def test_expected_errors_are_written(calibrated: Path, tmp_path: Path) -> None:
    path = write_rows(tmp_path, count=2)
    asked = ["explain", calibrated / "explainer", path, "--errors", "--pictures", "0", "--outputs", "all", "-w", "16,1"]
    code, said, err = run(*asked, "-w", "1,1", "--out", tmp_path / "csv", "--device", "cpu")
    assert (code, err) == (0, "")
    assert "expected error 0." in said
    table = pd.read_csv(tmp_path / "csv" / "values.csv")
    explainer, several = fw.load(calibrated / "explainer", device="cpu"), [fw.Beta(16, 1), fw.Shapley()]
    expected = explainer.explain(np.load(path)["x"], weights=several, errors=True).expected_error
    assert expected is not None
    assert np.allclose(table.expected_error.to_numpy().reshape(2, 2, 3), expected.transpose(0, 1).numpy(), atol=1e-6)
    assert run(*asked, "--out", tmp_path / "npz", "--format", "npz")[0] == 0
    with np.load(tmp_path / "npz" / "values.npz", allow_pickle=False) as file:
        assert file["expected_error"].shape == (1, 2, 3)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--errors"], "--errors needs an explainer fitted with --calibrate; or give --refine"),
        (["--errors", "--refine", "64"], "--errors is for values without --refine"),
        (["--refine", "64", "--total", "efficient"], "--refine gives raw values"),
        (["--refine", "15"], "n_calls must be at least 16"),
    ],
)
def test_errors_that_cannot_be_had(rows: Path, arguments: list[str], complaint: str) -> None:
    code, _, err = run("explain", rows / "explainer", rows / "rows.npz", *arguments)
    assert code == 2
    assert complaint in err


def test_too_few_inputs_to_calibrate_are_refused_before_training(rows: Path, tmp_path: Path) -> None:
    arguments = ["--out", tmp_path / "explainer", "--calibrate", *STEPS]  # a tenth of 60 is held out
    code, _, err = run("fit", f"{rows / 'models.py'}:rows", rows / "rows.npz", *arguments)
    assert code == 2
    assert "--calibrate needs at least 8 inputs that are not trained on, got 6: give them by --valid" in err


def test_python_runs_the_package_as_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fwshapley", "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("fwshapley", run_name="__main__")
    assert "Usage: fwshapley" in capsys.readouterr().out
