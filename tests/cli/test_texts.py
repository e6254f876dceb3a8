"""Texts on the command line: a model in a folder, a column of a table."""

from pathlib import Path

import pandas as pd
import pytest

from cli_cases import run
from text_models import make_model, make_texts, make_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, its tokenizer, and reviews."""
    folder = tmp_path_factory.mktemp("texts")
    model, tokenizer = make_model(), make_tokenizer()
    model.save_pretrained(folder / "model")  # type: ignore[operator]  # of transformers
    tokenizer.save_pretrained(folder / "model")
    texts = [*make_texts(30), "", "good " * 600]
    pd.DataFrame({"review": texts, "stars": 3}).to_csv(folder / "reviews.csv", index=False)
    return folder


def test_texts_are_fitted_and_explained(folder: Path) -> None:
    out = str(folder / "explainer")
    code, told, errors = run(
        *("fit", str(folder / "model"), str(folder / "reviews.csv"), "--text", "review", "--label", "stars"),
        *("--steps", "3", "--device", "cpu", "--out", out),
    )
    assert code == 0, errors
    assert "31 texts in column 'review'" in told
    assert "1 row without a text left out" in told
    assert "players: words" in told
    code, told, errors = run("explain", out, str(folder / "reviews.csv"), "--out", str(folder / "values"), "--top", "1")
    assert code == 0, errors
    assert "row 2 of reviews.csv" in told
    frame = pd.read_csv(folder / "values" / "values.csv")
    assert frame["piece"][0] == make_texts(1)[0].split()[0]
    assert "<span" in (folder / "values" / "texts.html").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--text", "reviews"), "did you mean 'review'"),
        (("--text", "review", "--patch", "2"), "--patch is not for texts"),
        (("--text", "review", "--method", "trees"), "leave out --method"),
        (("--unit", "token"), "--unit is for texts"),
    ],
)
def test_wrong_options_are_named(folder: Path, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    command = ("fit", str(folder / "model"), str(folder / "reviews.csv"), *options, "--out", str(tmp_path / "new"))
    code, _, errors = run(*command)
    assert code == 2
    assert message in errors


def test_a_folder_without_a_model_is_refused(folder: Path, tmp_path: Path) -> None:
    code, _, errors = run(
        "fit", str(folder), str(folder / "reviews.csv"), "--text", "review", "--out", str(tmp_path / "new")
    )
    assert code == 2
    assert "save_pretrained" in errors
