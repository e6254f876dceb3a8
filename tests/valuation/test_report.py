"""The page on a valuation: what it shows of suspects, pictures and classes, and which arguments it refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fwshapley as fw
from fwshapley.valuation.report import summarize, write_valuation_report
from fwshapley.valuation.suspects import find_suspects

X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0], [5]], 20, axis=0)
Y = np.repeat(["left", "<right>"], 20)
Y[[3, 30]] = ["<right>", "left"]
VALUATION = fw.value_neighbors(X, Y, k=3, progress=False)
IMAGES = np.arange(40 * 9).reshape(40, 3, 3)


def write(folder: Path, valuation: fw.Valuation = VALUATION, **options: Any) -> str:  # noqa: ANN401 - as the function has them
    path = write_valuation_report(valuation, folder / "report.html", **options)
    assert path == folder / "report.html"
    return path.read_text(encoding="utf-8")


def test_a_report_names_suspects_and_the_labels_of_their_neighbors(tmp_path: Path) -> None:
    page = write(tmp_path, x=X, names=[f"row <{number}>" for number in range(40)], n_shown=5, notes=["As given."])
    suspects = VALUATION.suspects(5).tolist()
    assert set(suspects[:2]) == {3, 30}
    assert re.findall(r"row &lt;(\d+)&gt;", page) == [str(point) for point in suspects]
    assert page.count("<td>") == 5 * 6 + 2 * 4
    assert "<right>" not in page
    assert "3 of 3" in page
    assert "(they agree)" in page
    assert "As given." in page
    assert re.findall(r"(?:src|href)=.(?!data:)", page) == []


def test_without_features_nothing_is_suggested(tmp_path: Path) -> None:
    page = write(tmp_path, n_shown=5)
    assert page.count("<td>") == 5 * 4 + 2 * 4
    assert "suggested" not in page


@pytest.mark.parametrize("x", [X, None], ids=["features", "no features"])
@pytest.mark.parametrize("images", [IMAGES, None], ids=["pictures", "no pictures"])
def test_a_report_on_targets_shows_the_mean_of_neighbors(x: Any, images: Any, tmp_path: Path) -> None:  # noqa: ANN401 - arrays or None
    targets = X.sum(1)
    targets[[3, 30]] += 50
    valuation = fw.value_neighbors(X, targets, k=3, progress=False)
    page = write(tmp_path, valuation, x=x, images=images, n_shown=4)
    assert "more likely its target is wrong" in page
    assert "40 points with targets from" in page
    assert "<h2>Classes</h2>" not in page
    assert ("neighbors' mean" in page.replace("&#x27;", "'").replace("&#39;", "'")) == (x is not None)
    assert "≠" not in page
    suspects = find_suspects(valuation, 2, x=X)
    assert set(suspects.points.tolist()) == {3, 30}
    for point, mean in zip(suspects.points.tolist(), suspects.suggested, strict=True):
        others = np.delete(np.arange(40), point)
        nearest = others[((X[others] - X[point]) ** 2).sum(1).argsort()[:3]]
        assert float(mean or "nan") == pytest.approx(targets[nearest].mean(), rel=1e-5)


def test_a_valuation_writes_its_report_itself(tmp_path: Path) -> None:
    assert VALUATION.write_report(tmp_path / "report.html", n_shown=5).read_text() == write(tmp_path, n_shown=5)


@pytest.mark.parametrize("channels", [None, 1, 3])
@pytest.mark.parametrize("x", [X, None], ids=["features", "no features"])
def test_pictures_are_shown_beside_their_neighbors(channels: int | None, x: Any, tmp_path: Path) -> None:  # noqa: ANN401 - an array or None
    images = IMAGES if channels is None else np.stack([IMAGES] * channels, 1) / 360
    page = write(tmp_path, x=x, images=images, n_shown=4, noun="picture")
    assert page.count("data:image/png") == 4 * (1 + (0 if x is None else 3)) + 1  # and the plot
    assert ("≠" in page) == (x is not None)


def test_a_list_of_one_weighting_may_be_reported_and_one_of_several(tmp_path: Path) -> None:
    several = fw.value_neighbors(X, Y, k=3, weights=[fw.Shapley(), fw.Beta(4, 1)], progress=False)
    assert write(tmp_path, VALUATION.stacked()) == write(tmp_path, several.of(fw.Shapley()))
    with pytest.raises(ValueError, match=r"2 weightings.*of\("):
        write(tmp_path, several)


def test_the_report_of_values_by_fits_says_how_they_were_computed(tmp_path: Path) -> None:
    other = replace(VALUATION, provenance={"method": "retraining, tmc", "reference": "given"}, references=7)
    page = write(tmp_path, other, x=X)
    assert "to predict 7 reference points: Shapley values, retraining, tmc." in page


def test_a_summary_counts_classes_and_negative_values() -> None:
    what, harm = summarize(VALUATION, "row")
    assert "40 rows in 2 classes (<right>: 20, left: 20)" in what
    assert "3 nearest neighbors, soft utility, euclidean distance" in what
    assert harm == "1 row (2%) has a negative value: it makes predictions worse."
    lower = replace(VALUATION, values=VALUATION.values - 1)
    assert summarize(lower, "row")[1] == "40 rows (100%) have negative values: they make predictions worse."
    assert summarize(replace(VALUATION, values=VALUATION.values.abs()), "row")[1].startswith("No row has")


def test_suspects_have_a_suggestion_unless_their_neighbors_agree() -> None:
    suspects = find_suspects(VALUATION, 40, x=X)
    for point, suggested, votes in zip(suspects.points.tolist(), suspects.suggested, suspects.votes, strict=True):
        assert suggested != Y[point]
        assert votes[0] in "23"
    assert sum(label is not None for label in suspects.suggested) == 2


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("options", "error", "name"),
    [
        ({"names": ["one"]}, ValueError, "names"),
        ({"names": "text"}, TypeError, "names"),
        ({"x": X[:5]}, ValueError, "x"),
        ({"images": IMAGES[:5]}, ValueError, "images"),
        ({"images": IMAGES[:, None, None]}, ValueError, "images"),
        ({"images": np.stack([IMAGES] * 2, 1)}, ValueError, "images"),
        ({"n_shown": 0}, ValueError, "n_shown"),
        ({"n_shown": 2.5}, TypeError, "n_shown"),
    ],
)
def test_wrong_arguments_of_a_report_are_refused(
    options: dict[str, Any], error: type[Exception], name: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=f"^{name} must"):
        write(tmp_path, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("unchecked")
def test_a_report_is_of_a_valuation_and_in_a_file(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"^valuation must"):
        write_valuation_report(VALUATION.values, tmp_path / "report.html")  # type: ignore[arg-type]
    with pytest.raises(IsADirectoryError, match=r"^path must"):
        write_valuation_report(VALUATION, tmp_path)


def test_a_path_that_cannot_be_written_is_named_as_the_argument(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="path") as caught:
        write_valuation_report(VALUATION, tmp_path / "file" / "report.html")
    assert "--out" not in str(caught.value)
