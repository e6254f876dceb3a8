from __future__ import annotations

import os
import re
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import fwshapley as fw
from cli_cases import Classifier, export, run, write_models, write_pictures, write_rows, write_table
from fwshapley._internal import progress
from fwshapley._internal.files import locked
from fwshapley._internal.safetensors_file import load_bundle
from fwshapley.cli.fit_record import COMMAND, open_explainer
from fwshapley.cli.input_files import read_inputs
from fwshapley.cli.input_format import InputFormat
from fwshapley.cli.model_loading import ExportedModel
from fwshapley.cli.pictures.files import Size, find_images, read_images
from fwshapley.explanation.learned.persistence import FILE, KIND

STEPS = ("--steps", "10", "--device", "cpu")


class Two(torch.nn.Module):
    """A model of two inputs that returns images."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


def recorded(folder: Path) -> dict[str, Any]:
    """Return what `fit` keeps in the file of the explainer."""
    found: dict[str, Any] = load_bundle(folder / FILE, KIND)[0]["metadata"][COMMAND]
    return found


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_only_some_rows_with_gaps(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b\n" + "".join(f"{n},{n % 5 or ''}\n" for n in range(30)))
    (tmp_path / "net.py").write_text("def score(x):\n    return x['a'] - x['b'].fillna(-1)\n")
    arguments = ["--out", tmp_path / "out", "--sample", "20", *STEPS]
    code, said, _ = run("fit", f"{tmp_path / 'net.py'}:score", tmp_path / "table.csv", *arguments)
    assert code == 0
    assert "table.csv: 30 rows, 2 columns: 2 of numbers" in said
    assert "6 missing entries, passed to the model as they are" in said
    assert "20 of 30, chosen at random" in said
    assert "predict the same class" not in said


def test_a_torch_module_of_rows(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    model = f"{write_models(tmp_path)}:rows"
    code, said, err = run("fit", model, write_rows(tmp_path), "--out", out, *STEPS)
    assert (code, err) == (0, "")
    assert names_in(out) == ["explainer.safetensors"]
    for text in (
        "rows.npz: 60 rows, 4 columns of numbers",
        "6 inputs held out for validation",
        "players: 4 columns",
        "10 steps",
    ):
        assert text in said
    for text in ("surrogate 6", "explainer 4", "Divergence of the surrogate", "predicts the model's class for"):
        assert text in said
    assert f"next: fwshapley explain {out} INPUT --model {model} --out explanations" in said
    record = recorded(out)
    assert record["arguments"]["steps"] == 10
    assert record["model"].endswith("models.py:rows")
    assert fw.load(out).explain(torch.zeros(2, 4)).values.shape == (2, 4, 3)


def test_the_same_seed_gives_the_same_explainer(tmp_path: Path) -> None:
    arguments = ["fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), *STEPS]
    outs = [tmp_path / name for name in ("one", "two", "three")]
    for out, seed in zip(outs, ("0", "0", "1"), strict=True):
        assert run(*arguments, "--out", out, "--seed", seed)[0] == 0
    one, two, three = (fw.load(out).explain(torch.ones(1, 4)).values for out in outs)
    assert torch.equal(one, two)
    assert not torch.equal(one, three)


def test_an_estimator_takes_its_own_columns_of_a_csv_file(tmp_path: Path) -> None:
    table = write_table(tmp_path)
    out = tmp_path / "out"
    code, said, err = run("fit", f"{tmp_path / 'pipeline.py'}:model", table, "--out", out, *STEPS)
    assert (code, err) == (0, "")
    assert "drinks.csv: 60 rows, 3 columns: 1 of numbers, 2 of text (town, code)" in said
    assert "left out: id, kind" in said
    assert fw.load(out).players_.names == ("a", "town", "code")
    assert recorded(out)["format"]["texts"] == ["town", "code"]
    code, _, err = run("fit", f"{tmp_path / 'pipeline.py'}:model", table, "--ignore", "a", "--out", tmp_path / "other")
    assert code == 2
    assert "column a cannot be left out: the model was fitted with it" in err


def test_columns_are_left_out_as_asked(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("id;a;b;kind\n" + "".join(f"{n};{n},5;{n % 3};p\n" for n in range(30)))
    (tmp_path / "net.py").write_text("def score(x):\n    return x['a'] - x['b']\n")
    arguments = ["fit", f"{tmp_path / 'net.py'}:score", tmp_path / "table.csv", *STEPS]
    code, said, _ = run(*arguments, "--label", "kind", "--ignore", "id", "--out", tmp_path / "out")
    assert code == 0
    assert "left out: id, kind" in said
    assert "columns are separated by semicolons" in said
    assert "numbers with a decimal comma: a" in said
    assert "explained output: raw" in said
    code, _, err = run(*arguments, "--label", "Kind", "--out", tmp_path / "other")
    assert code == 2
    assert "has no column 'Kind' (did you mean 'kind'?)" in err


def test_pictures_of_a_folder(tmp_path: Path) -> None:
    model = f"{write_models(tmp_path)}:image_model()"
    out = tmp_path / "out"
    arguments = ["--names", "cat, dog, bird", "--output", "logit", "--mean", "0.5", "--std", "0.25", "--sample", "30"]
    code, said, err = run("fit", model, write_pictures(tmp_path), "--patch", "4", "--out", out, *arguments, *STEPS)
    assert (code, err) == (0, "")
    for text in ("30 pictures of 8 x 8 pixels, gray", "30 of 40, chosen at random", "values from 0 to 1"):
        assert text in said
    assert "normalized with mean 0.5, std 0.25" in said
    assert "players: 4 patches of 4 x 4 pixels" in said
    assert f"INPUT --model '{model}' --out" in said
    wanted = recorded(out)["format"]
    assert (wanted["size"], wanted["color"], wanted["mean"]) == ([8, 8], "gray", [0.5])


def test_pictures_are_resized_and_converted(tmp_path: Path) -> None:
    model = f"{write_models(tmp_path)}:images"
    pictures = write_pictures(tmp_path, size=12, mode="RGB")
    code, said, err = run("fit", model, pictures, "--out", tmp_path / "out", "--size", "8", "--gray", *STEPS)
    assert (code, err) == (0, "")
    assert "40 pictures of 8 x 8 pixels, gray" in said
    assert "players: 64 patches of 1 x 1 pixels; --patch gives another size" in said


def test_a_function_gets_images_as_they_are_in_the_file(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", images=images, y=np.zeros(40))
    segments = np.repeat([[0], [1]], 4, axis=0) * np.ones((1, 8), dtype=int)
    np.save(tmp_path / "halves.npy", segments)
    model = f"{write_models(tmp_path)}:last_channels"
    out = tmp_path / "out"
    arguments = ["--segments", tmp_path / "halves.npy", "--out", out, "--valid", tmp_path / "images.npz"]
    code, said, err = run("fit", model, tmp_path / "images.npz", *arguments, *STEPS)
    assert code == 0
    assert err.startswith("quality of the explanations: on 40 held-out inputs, ")  # two players are soon measured
    assert "Quality: on 40 held-out inputs, " in said
    assert "its axes, (40, 8, 8, 3), are read as (images, height, width, channels)" in said
    assert "40 inputs of images.npz for validation" in said
    assert "players: 2 segments of halves.npy" in said


@pytest.mark.parametrize(
    ("name", "output", "names"),
    [
        ("estimator", "probability", ("dark", "bright")),
        ("regressor", "raw", ("output 0",)),
        ("last_channels", "probability", ("output 0", "output 1")),
    ],
)
def test_estimators_and_functions_get_the_same_images(
    name: str, output: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    """All of them refuse images that are not (images, height, width, channels), as the file has them."""
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", images=images)
    model, out = f"{write_models(tmp_path)}:{name}", tmp_path / "out"
    code, said, err = run("fit", model, tmp_path / "images.npz", "--patch", "4", "--out", out, *STEPS)
    assert (code, err) == (0, "")
    assert f"explained output: {output}" in said
    assert ("(Estimator)" in said) == (name == "estimator")
    code, _, err = run("explain", out, tmp_path / "images.npz", "--model", model, "--device", "cpu")
    assert (code, err) == (0, "")
    assert fw.load(out, device="cpu").output_names_ == names


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_reading_images_takes_little_more_than_their_own_size(layout: str, tmp_path: Path) -> None:
    shape = (200, 3, 32, 32) if layout == "NCHW" else (200, 32, 32, 3)
    bytes_ = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    np.savez(tmp_path / "images.npz", x=bytes_)
    mean, std = (0.5, 0.4, 0.3), (0.25, 0.5, 2.0)
    tracemalloc.start()
    inputs, settled = read_inputs([tmp_path / "images.npz"], InputFormat(mean=mean, std=std))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(inputs.x, np.ndarray)
    assert inputs.x.dtype == np.float32
    assert peak < 2 * inputs.x.nbytes
    first = bytes_ if layout == "NCHW" else bytes_.transpose(0, 3, 1, 2)
    expected = (first / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    np.testing.assert_allclose(inputs.x, expected, atol=1e-6)
    np.testing.assert_allclose(settled.denormalize(inputs.x), first / 255, atol=1e-6)


def test_images_without_mean_and_deviation_are_as_they_are() -> None:
    images = np.random.default_rng(0).random((2, 3, 4, 4), dtype=np.float32)
    assert InputFormat().normalize(images) is images
    assert InputFormat().denormalize(images) is images
    shifted = InputFormat(mean=(0.5,)).denormalize(images)
    assert shifted.dtype == np.float32
    np.testing.assert_allclose(shifted, images + 0.5, atol=1e-6)
    np.testing.assert_allclose(InputFormat(mean=(0.5,)).normalize(shifted), images, atol=1e-6)


def test_pictures_of_every_depth(tmp_path: Path) -> None:
    gray = np.arange(64, dtype=np.uint8).reshape(8, 8)
    Image.fromarray(gray).save(tmp_path / "gray.png")
    Image.fromarray(gray.astype(np.uint16) * 256).save(tmp_path / "deep.png")
    Image.fromarray(gray).convert("P").save(tmp_path / "palette.png")
    Image.fromarray(gray).convert("RGBA").save(tmp_path / "alpha.png")
    pixels, size, color, *_ = read_images([tmp_path / "gray.png", tmp_path / "deep.png"], None, None)
    assert (size, color) == (Size(8, 8), "gray")
    assert (pixels == gray).all()
    pixels, _, color, *_ = read_images(find_images(tmp_path), None, None)
    assert color == "rgb"
    assert (pixels == gray).all()
    assert pixels.shape == (4, 3, 8, 8)


@pytest.mark.parametrize("most", [None, 16])
def test_an_exported_program(most: int | None, tmp_path: Path) -> None:
    path = export(tmp_path / "model.pt2", Classifier(), most=most)
    code, said, err = run("fit", path, write_pictures(tmp_path), "--patch", "2", "--out", tmp_path / "out", *STEPS)
    assert (code, err) == (0, "")
    assert "explained output: probability" in said
    assert f"INPUT --model {path} --out explanations" in said


def test_an_exported_program_that_returns_several_things(tmp_path: Path) -> None:
    classifier = Classifier()
    x = np.random.default_rng(0).random((5, 1, 8, 8), dtype=np.float32)
    program = ExportedModel(export(tmp_path / "model.pt2", WithFeatures(classifier)), "classes")
    np.testing.assert_allclose(program(x), classifier(torch.from_numpy(x)).softmax(1).detach(), atol=1e-6)


class WithFeatures(torch.nn.Module):
    """A model that returns its logits in a dict."""

    def __init__(self, classifier: torch.nn.Module) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"features": x, "scores": self.classifier(x)}


def shifted(ask: Callable[[torch.Tensor], torch.Tensor], more: float, rows: torch.Tensor) -> torch.Tensor:
    return ask(rows) + more


def test_whether_a_program_returns_probabilities_is_decided_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second batch looks unlike the first: its sums are not 1."""
    classifier = Classifier()
    x = np.random.default_rng(0).random((5, 1, 8, 8), dtype=np.float32)
    logits = classifier(torch.from_numpy(x)).detach()
    probable = torch.nn.Sequential(classifier, torch.nn.Softmax(1))
    for model, more, expected in ((classifier, 1, (logits + 1).softmax(1)), (probable, 0.01, logits.softmax(1) + 0.01)):
        program = ExportedModel(export(tmp_path / "model.pt2", model), "classes")
        np.testing.assert_allclose(program(x), logits.softmax(1), atol=1e-6)
        monkeypatch.setattr(program, "ask", partial(shifted, program.ask, more))
        np.testing.assert_allclose(program(x), expected, atol=1e-6)


def test_the_kernel_objective_learns_one_weighting(tmp_path: Path) -> None:
    arguments = ["fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), "--out", tmp_path / "out", *STEPS]
    code, _, err = run(*arguments, "--alpha", "4")
    assert code == 2
    assert "give --alpha and --beta to fwshapley explain, or use --objective kernel" in err
    code, _, err = run(*arguments, "--objective", "kernel")
    assert code == 2
    assert "--objective kernel learns one semivalue: give --alpha and --beta" in err
    assert run(*arguments, "--objective", "kernel", "--alpha", "4")[0] == 0
    assert fw.load(tmp_path / "out").explain(torch.zeros(1, 4)).weights == fw.Beta(4, 1)


def test_a_report_is_written_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), "--out", tmp_path / "out", *STEPS]
    assert run(*arguments, "--report", "--objective", "kernel", "--alpha", "1")[0] == 0
    assert names_in(tmp_path / "out") == ["explainer.safetensors", "report.html"]
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, _, err = run(*arguments, "--report", "--force")
    assert code == 2
    assert "pip install 'fwshapley[plots]'" in err


def test_a_report_measures_as_many_held_out_inputs_as_sampling_can_afford(tmp_path: Path) -> None:
    (tmp_path / "valid").mkdir()
    valid = write_rows(tmp_path / "valid", count=70)
    arguments = ["fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), "--valid", valid, "--report", *STEPS]
    assert run(*arguments, "--objective", "kernel", "--alpha", "1", "--out", tmp_path / "out")[0] == 0
    assert "64 inputs were explained" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_a_report_of_the_explainer_before_is_removed_with_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), "--out", out, *STEPS]
    assert run(*arguments, "--report")[0] == 0
    code, _, err = run(*arguments)
    assert code == 2
    assert "already has explainer.safetensors, report.html" in err
    (out / "notes.txt").write_text("mine")
    assert run(*arguments, "--force")[0] == 0
    assert names_in(out) == ["explainer.safetensors", "notes.txt"]
    (out / "report.html").write_text("mine")
    assert run(*arguments, "--force")[0] == 0
    assert (out / "report.html").read_text() == "mine"
    (out / "explainer.safetensors").write_text("damaged")
    assert run(*arguments, "--force")[0] == 0
    assert (out / "report.html").read_text() == "mine"


def test_a_report_by_others_is_replaced_only_by_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.html").write_text("mine")
    arguments = ["fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), "--out", out, "--report", *STEPS]
    code, _, err = run(*arguments)
    assert code == 2
    assert "already has report.html: replace it with --force" in err
    assert names_in(out) == ["report.html"]
    assert run(*arguments, "--force")[0] == 0
    assert (out / "report.html").read_text() != "mine"


@pytest.mark.parametrize("kind", [RuntimeError, ZeroDivisionError, KeyError, NotImplementedError])
def test_mistakes_of_ours_are_not_hidden(
    kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise kind("a bug")

    monkeypatch.setattr(fw.FeatureExplainer, "fit", fail)
    with pytest.raises(kind, match="a bug"):
        run("fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), "--out", tmp_path / "out", *STEPS)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError("no 3 TiB"), "no 3 TiB"),
        (torch.OutOfMemoryError("CUDA"), "not enough memory: CUDA"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes"), "not enough memory"),
    ],
)
def test_too_little_memory_is_told(
    error: Exception, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(fw.FeatureExplainer, "fit", fail)
    code, _, err = run("fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), "--out", tmp_path / "out", *STEPS)
    assert code == 2
    assert told in err


def test_a_mistake_of_ours_is_not_taken_for_the_end_of_what_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise EOFError

    monkeypatch.setattr(fw.FeatureExplainer, "fit", fail)
    with pytest.raises(RuntimeError, match="ended too early"):
        run("fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), "--out", tmp_path / "out", *STEPS)


def test_training_that_diverged_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise FloatingPointError("the surrogate diverged at step 3")

    monkeypatch.setattr(fw.FeatureExplainer, "fit", fail)
    arguments = ["fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), "--out", tmp_path / "out", *STEPS]
    code, _, err = run(*arguments)
    assert (code, err) == (2, "error: the surrogate diverged at step 3")


def test_a_fit_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), *STEPS]
    assert run(*arguments, "--out", tmp_path / "whole")[0] == 0
    out = tmp_path / "out"

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("fwshapley.explanation.learned.fitting._fit_network", stop)
        code, _, err = run(*arguments, "--out", out)
    assert code == 130
    assert f"progress is saved in {out / 'checkpoints'}. Run the same command with --resume to continue" in err
    assert names_in(out) == ["checkpoints"]

    code, _, err = run(*arguments, "--out", out)
    assert code == 2
    assert "contains training that was stopped: continue with --resume, or start again with --force" in err
    code, _, err = run(*arguments, "--out", out, "--resume", "--seed", "1")
    assert code == 2
    assert "is the checkpoint of another run" in err
    assert run(*arguments, "--out", out, "--resume")[0] == 0
    assert names_in(out) == ["explainer.safetensors"]
    explained = [fw.load(folder).explain(torch.ones(1, 4)).values for folder in (out, tmp_path / "whole")]
    assert torch.equal(*explained)


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), "--out", out, *STEPS]
    code, _, err = run(*arguments, "--resume")
    assert code == 2
    assert "--resume has nothing to resume" in err
    assert not out.exists()
    (out / "checkpoints").mkdir(parents=True)
    assert run(*arguments, "--resume")[0] == 2
    (out / "checkpoints" / "notes.txt").write_text("mine")
    assert run(*arguments)[0] == 0
    assert names_in(out / "checkpoints") == ["notes.txt"]  # what is not ours stays


def test_a_fit_where_another_is_running_is_told_which_process(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), "--out", out, *STEPS]
    with locked(out):
        for more in ([], ["--force"], ["--resume"]):
            code, _, err = run(*arguments, *more)
            assert code == 2
            assert f"process {os.getpid()} is already writing to {out}" in err
    assert run(*arguments)[0] == 0
    assert names_in(out) == ["explainer.safetensors"]


def test_checkpoints_that_cannot_be_written_are_noticed_at_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "checkpoints").touch()
    for more in ([], ["--force"]):
        code, _, err = run("fit", "nowhere.py:model", tmp_path / "nowhere.csv", "--out", out, *more)
        assert code == 2
        assert "checkpoints is a file: choose another folder for --out" in err


def test_a_stop_before_anything_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fwshapley.explanation.learned.fitting.train_surrogate", stop)
    out = tmp_path / "out"
    code, _, err = run("fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), "--out", out, *STEPS)
    assert code == 130
    assert "stopped before anything was saved" in err
    assert not out.exists()


def test_an_explainer_is_replaced_only_by_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), "--out", out, *STEPS]
    assert run(*arguments)[0] == 0
    code, said, err = run(*arguments)
    assert (code, said) == (2, "")
    assert "already has explainer.safetensors: replace it with --force" in err
    (out / "checkpoints").mkdir()
    (out / "checkpoints" / "surrogate.safetensors").write_text("of another run")
    assert run(*arguments, "--force")[0] == 0
    assert names_in(out) == ["explainer.safetensors"]


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("model.pth", "may be a pickle, which can run any code"),
        ("model.onnx", "write a function that returns its outputs"),
        ("nothing", "a model must be 'package.module:attribute'"),
        ("nowhere.py:model", "there is no file nowhere.py"),
        ("nowhere.pt2", "there is no file nowhere.pt2"),
        ("no_such_module:model", "there is no module no_such_module in"),
        ("MODELS:imagez", "has no 'imagez' (did you mean 'images'?)"),
        ("MODELS:Net", "is a class, not a model: to call it, write"),
        ("MODELS:image_model", "is a function without arguments: if it returns the model, write"),
        ("MODELS:number", "must be a torch module, a function, or an estimator"),
        ("MODELS:rows()", "failed: TypeError"),
        ("MODELS:images", "the model failed on float32 inputs of shape (54, 4)"),
        ("BROKEN:model", "could not be imported: ZeroDivisionError: division by zero (raised at "),
        ("EXIT:model", "ended Python"),
        ("TEXT:model", "is not a Python file"),
        ("DAMAGED", "is damaged, or was not saved by torch.export.save"),
    ],
)
def test_models_that_cannot_be_found_or_run(model: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "text").write_text("model = 1\n")
    (tmp_path / "exit.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "damaged.pt2").write_text("no archive")
    files = {"MODELS": write_models(tmp_path)} | {
        name: tmp_path / path
        for name, path in (
            ("BROKEN", "broken.py"),
            ("EXIT", "exit.py"),
            ("TEXT", "text"),
            ("DAMAGED", "damaged.pt2"),
        )
    }
    for name, path in files.items():
        model = model.replace(name, str(path))
    code, _, err = run("fit", model, write_rows(tmp_path), "--out", tmp_path / "out", *STEPS)
    assert code == 2
    assert complaint in err
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_a_module_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_module_of_mine.py").write_text("def total(x):\n    return x.sum(1)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert run("fit", "a_module_of_mine:total", write_rows(tmp_path), "--out", "out", *STEPS)[0] == 0


def test_exported_programs_that_cannot_be_used(tmp_path: Path) -> None:
    pictures = write_pictures(tmp_path)
    fixed = export(tmp_path / "fixed.pt2", Classifier(), fixed=True)
    code, _, err = run("fit", fixed, pictures, "--out", tmp_path / "out", *STEPS)
    assert code == 2
    assert "takes batches of 2 inputs only: export it with torch.export.export(" in err
    assert "dynamic_shapes=({0: torch.export.Dim(" in err
    single = export(tmp_path / "single.pt2", Classifier(outputs=1))
    code, _, err = run("fit", single, pictures, "--out", tmp_path / "out", *STEPS)
    assert code == 2
    assert "use --output 'label_probability' if the output is the logit of a label, --output 'raw'" in err
    two = tmp_path / "two.pt2"
    torch.export.save(torch.export.export(Two(), (torch.rand(2, 1, 8, 8), torch.rand(2, 1, 8, 8))), two)
    code, _, err = run("fit", two, pictures, "--out", tmp_path / "out", *STEPS)
    assert code == 2
    assert "takes 2 inputs: export a model of one input" in err
    maps = export(tmp_path / "maps.pt2", torch.nn.Conv2d(1, 2, 3))
    code, _, err = run("fit", maps, pictures, "--out", tmp_path / "out", *STEPS)
    assert code == 2
    assert "must return (batch, outputs), it returns (" in err
    arguments = ["--output", "label_probability", "--patch", "4"]
    assert run("fit", single, pictures, "--out", tmp_path / "out", *arguments, *STEPS)[0] == 0


@pytest.mark.parametrize(
    ("data", "arguments", "complaint"),
    [
        ("nowhere.csv", [], "there is no file"),
        ("models.py", [], "cannot be read: inputs are .csv files"),
        ("names.npz", [], "must have an array 'x' of inputs; it has a, b"),
        ("text.npz", [], "must be numbers"),
        ("broken.npz", [], "is damaged, or not an .npz file of plain arrays"),
        ("one.npz", [], "--valid"),
        ("rows.npz", ["--patch", "2"], "players of a table are its columns"),
        ("rows.npz", ["--size", "8"], "--size, --mean and --std are for images"),
        ("rows.npz", ["--label", "y"], "there is no column y to leave out"),
        ("rows.npz", ["--size", "big"], "must be HEIGHTxWIDTH"),
        ("rows.npz", ["--mean", "a"], "'a' must be a number"),
        ("rows.npz", ["--steps", "0"], "--steps"),
        ("rows.npz", ["--seconds", "-1"], "seconds must be positive"),
        ("rows.npz", ["--names", "a,b"], "output_names has 2 names for a model of 3 outputs"),
        ("rows.npz", ["--network", "unet"], "--network 'unet' is for images"),
        ("rows.npz", ["--device", "cuda:99"], "cuda"),
        ("rows.npz", ["--device", "toaster"], "--device 'toaster' cannot be used"),
        ("rows.npz", ["--device", "xpu"], "--device 'xpu' cannot be used"),
        ("empty", [], "contains no pictures"),
        ("gap.csv", [], "column b of"),
        ("gap.csv", ["--ignore", "a", "--label", "b"], "has no column left to explain"),
        ("images.npz", ["--size", "9"], "are 8 x 8 pixels, expected 9 x 9"),
        ("images.npz", ["--segments", "models.py", "--patch", "2"], "exclude each other"),
        ("images.npz", ["--segments", "nowhere.npy"], "there is no file"),
        ("images.npz", ["--segments", "models.py"], "is not a .npy file of segments"),
        ("images.npz", ["--segments", "floats.npy"], "must be a .npy file of whole numbers"),
    ],
)
def test_data_that_cannot_be_read(data: str, arguments: list[str], complaint: str, tmp_path: Path) -> None:
    model = f"{write_models(tmp_path)}:rows"
    write_rows(tmp_path)
    np.savez(tmp_path / "names.npz", a=np.zeros(3), b=np.zeros(3))
    np.savez(tmp_path / "text.npz", x=np.array([["a", "b"]]))
    np.savez(tmp_path / "one.npz", x=np.zeros((1, 4)))
    (tmp_path / "broken.npz").write_bytes(b"PK broken")
    np.savez(tmp_path / "images.npz", x=np.zeros((4, 8, 8)))
    np.save(tmp_path / "floats.npy", np.zeros((8, 8)))
    arguments = [str(tmp_path / each) if each.endswith((".py", ".npy")) else each for each in arguments]
    (tmp_path / "empty").mkdir()
    (tmp_path / "gap.csv").write_text("a,b\n1,\n2,\n")
    code, _, err = run("fit", model, tmp_path / data, "--out", tmp_path / "out", *STEPS, *arguments)
    assert code == 2
    assert complaint in err
    assert not (tmp_path / "out").exists()


def test_pictures_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = f"{write_models(tmp_path)}:images"
    pictures = write_pictures(tmp_path, count=4)
    write_pictures(tmp_path / "others", count=1, size=9)
    arguments = ["fit", model, pictures, "--out", tmp_path / "out", *STEPS]
    (tmp_path / "others" / "pictures" / "a" / "000.png").rename(pictures / "b" / "z.png")
    code, _, err = run(*arguments)
    assert code == 2
    assert "z.png is 9 x 9 pixels" in err
    assert "--size 8x8" in err
    code, _, err = run(*arguments, "--patch", "9", "--size", "8x8")
    assert code == 2
    assert "patch=9" in err
    code, _, err = run(*arguments, "--size", "8x8", "--mean", "1,2,3")
    assert code == 2
    assert "--mean has 3 numbers for images of 1 channel" in err
    for path in sorted(pictures.rglob("*.png"))[1:]:
        path.write_bytes(b"no picture")
    code, _, err = run(*arguments, "--size", "8x8")
    assert code == 2
    assert "4 of 5 files cannot be read as pictures: a/002.png, b/001.png, b/003.png, b/z.png" in err
    monkeypatch.setitem(sys.modules, "PIL", None)
    code, _, err = run(*arguments)
    assert code == 2
    assert "pip install 'fwshapley[images]'" in err


@pytest.mark.parametrize("cut", [0, 60])
def test_a_picture_that_cannot_be_read_is_skipped_and_named(cut: int, tmp_path: Path) -> None:
    pictures = write_pictures(tmp_path, count=12)
    broken = pictures / "b" / "a name that is much longer than the letters that a list of others would show.png"
    broken.write_bytes((pictures / "a" / "000.png").read_bytes()[:cut])
    out = tmp_path / "out"
    arguments = ["--patch", "4", "--out", out, *STEPS]
    code, said, err = run("fit", f"{write_models(tmp_path)}:images", pictures, *arguments)
    assert code == 0
    told = f"1 of 13 files cannot be read and were skipped: b/{broken.name}"
    assert f"warning: {told}" in err
    assert f"• {told}" in said
    assert "12 pictures of 8 x 8 pixels" in said
    assert told in open_explainer(out).record.notes


def test_progress_is_told_in_lines_where_output_is_redirected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_LINE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    arguments = ["--out", tmp_path / "out", "--steps", "200", "--device", "cpu"]
    code, _, err = run("fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), *arguments)
    assert code == 0
    assert re.search(r"training the explainer: \d+% after \d+ s", err)


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line_without_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(*_: object, **__: object) -> None:
        warnings.warn("something\nto know", stacklevel=1)
        raise ValueError("stop here")

    monkeypatch.setattr(fw.FeatureExplainer, "fit", warn)
    arguments = ["fit", f"{write_models(tmp_path)}:rows", write_rows(tmp_path), "--out", tmp_path / "out", *STEPS]
    assert run(*arguments)[2] == "warning: something to know error: stop here"


def test_help_says_how_to_start() -> None:
    code, said, _ = run("fit", "--help")
    assert code == 0
    assert "fwshapley fit model.py:model train.csv --label species --out explainer" in said
