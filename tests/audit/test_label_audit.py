from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics import average_precision_score

import fwshapley as fw
from fwshapley.audit.points import read_points
from fwshapley.audit.review.decisions import read_decisions
from fwshapley.valuation import flip_labels

STEPS = fw.Budget(steps=40)
QUIET: dict[str, Any] = {"progress": False, "device": "cpu"}


def make_data() -> tuple[pd.DataFrame, NDArray[np.str_], NDArray[np.str_]]:
    """Return a table of three kinds of things with gaps, their true kinds, and kinds of which a tenth is wrong."""
    generator = np.random.default_rng(0)
    true = np.repeat(["cat", "cow", "dog"], 80)
    size = generator.normal(size=240) + np.repeat([0, 4, 8], 80)
    frame = pd.DataFrame({"size": size, "color": np.where(generator.random(240) < 0.8, true, "?"), "noise": size[::-1]})
    frame.loc[::17, "size"] = np.nan
    return frame, true, flip_labels(true, share=0.1, seed=1).labels


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def fitted(kept: Path) -> fw.LabelAudit:
    frame, _, given = make_data()
    return fw.LabelAudit(folds=3, budget=STEPS, checkpoint=kept, **QUIET).fit(frame, given)


def test_wrong_labels_come_first_with_the_right_ones(fitted: fw.LabelAudit) -> None:
    _, true, given = make_data()
    wrong = given != true
    assert average_precision_score(wrong, fitted.wrong_probability_) > 0.9
    assert wrong[fitted.ranking_[:20]].mean() > 0.9
    likely = fitted.wrong_probability_ > 0.5
    assert (fitted.suggested_labels_[likely] == true[likely]).mean() > 0.9
    assert (fitted.suggested_labels_[fitted.wrong_probability_ < 0.2] == given[fitted.wrong_probability_ < 0.2]).all()
    assert fitted.noise_ == pytest.approx(wrong.mean(), abs=0.05)


def test_probabilities_are_those_of_all_classes(fitted: fw.LabelAudit) -> None:
    _, _, given = make_data()
    assert np.allclose(fitted.label_probabilities_.sum(1), 1)
    own = fitted.label_probabilities_[np.arange(240), np.searchsorted(fitted.classes_, given)]
    assert np.allclose(own, 1 - fitted.wrong_probability_)
    assert np.allclose(fitted.suggested_probability_, fitted.label_probabilities_.max(1))
    assert (np.diff(fitted.wrong_probability_[fitted.ranking_]) <= 0).all()
    assert fitted.confusions_.to_numpy().sum() == pytest.approx(240)


def test_evidence_is_by_point_and_has_weights(fitted: fw.LabelAudit) -> None:
    _, true, given = make_data()
    evidence = fitted.evidence_
    assert evidence.columns.tolist() == [
        *("self_confidence", "normalized_margin", "trained_confidence", "training_margin", "neighbor_disagreement"),
        *("data_value", "agreement"),
    ]
    assert evidence.notna().all(axis=None)
    for name, column in evidence.items():
        sign = 1 if name == "neighbor_disagreement" else -1
        assert average_precision_score(given != true, sign * column) > 0.4, name
    assert set(fitted.evidence_weights_) < set(evidence)
    assert min(fitted.evidence_weights_.values()) >= 0
    assert sum(fitted.model_weights_.values()) == pytest.approx(1)
    table = fitted.to_dataframe()
    assert table.sort_values("rank").index.tolist() == fitted.ranking_.tolist()


def test_data_values_are_those_of_the_neighbors(fitted: fw.LabelAudit) -> None:
    frame, _, given = make_data()
    values = fw.value_neighbors(frame, given, k=10, progress=False).values
    assert np.allclose(fitted.evidence_["data_value"], values)


def test_reasons_are_sentences_about_the_point(fitted: fw.LabelAudit) -> None:
    _, true, given = make_data()
    point = int(fitted.ranking_[0])
    reasons = "; ".join(fitted.reasons(point))
    assert f"models that were not trained on it say {true[point]}" in reasons
    assert f"nearest neighbors are labeled {true[point]}" in reasons
    assert given[point] in reasons


def test_what_models_say_is_kept_and_used_again(
    fitted: fw.LabelAudit, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, _, given = make_data()
    assert sorted(path.name for path in kept.iterdir()) == ["given_labels.safetensors", "injected_errors.safetensors"]
    monkeypatch.setattr("fwshapley.audit.judging.cross_fit_networks", None)  # nothing is trained again
    again = clone(fitted).set_params(resume=True).fit(frame, given)
    assert (again.wrong_probability_ == fitted.wrong_probability_).all()
    with pytest.raises(ValueError, match="checkpoint of another run: seed differs"):
        clone(fitted).set_params(resume=True, seed=1).fit(frame, given)


def test_interrupted_training_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame, _, given = make_data()
    audit = fw.LabelAudit(folds=2, budget=fw.Budget(steps=8), checkpoint=tmp_path, **QUIET)
    with monkeypatch.context() as patched:
        patched.setattr("fwshapley.audit.judging.cross_fit_boosting", None)
        with pytest.raises(TypeError, match="not callable"):
            audit.fit(frame, given)
    assert [path.name for path in tmp_path.iterdir()] == ["given_labels_networks.safetensors"]
    resumed = audit.set_params(resume=True).fit(frame, given)
    fresh = clone(audit).set_params(checkpoint=None, resume=False).fit(frame, given)
    assert np.allclose(resumed.wrong_probability_, fresh.wrong_probability_)


def test_near_duplicates_outliers_and_leakage(fitted: fw.LabelAudit) -> None:
    frame, _, _ = make_data()
    leaked = fitted.find_leakage(frame.iloc[[3, 100]].assign(size=lambda rows: rows["size"] + 1e-9))
    assert leaked[["other", "point"]].to_numpy().tolist() == [[0, 3], [1, 100]]
    assert {"group", "point", "label", "distance", "labels_differ"} == set(fitted.near_duplicates_)
    assert {"point", "distance"} == set(fitted.outliers_)


def test_a_label_that_occurs_once_is_suspicious(capsys: pytest.CaptureFixture[str]) -> None:
    frame, _, given = make_data()
    misspelled = given.astype(object)
    misspelled[5] = "Catt"
    audit = fw.LabelAudit(folds=2, budget=fw.Budget(steps=30), **QUIET).fit(frame, misspelled)
    assert 5 in audit.ranking_[:30]
    assert audit.reasons(5)[0] == "no other point has the label Catt"
    assert capsys.readouterr().err == ""


def test_images_are_audited_by_networks_that_learn_them() -> None:
    digits = load_digits(n_class=2)
    labels, wrong = flip_labels(digits.target[:120], share=0.1, seed=0)
    audit = fw.LabelAudit(folds=2, budget=fw.Budget(steps=160), **QUIET).fit(digits.images[:120, None], labels)
    assert list(audit.model_weights_) == ["convolutional network"]
    assert average_precision_score(wrong, audit.wrong_probability_) > 0.7


def test_wide_arrays_are_taken_for_embeddings() -> None:
    x = np.random.default_rng(0).normal(size=(40, 300))
    points = read_points(x, "auto")
    assert points.form.metric == "cosine"
    assert points.form.to_networks(points.features).shape == (40, 40)
    assert np.allclose(np.linalg.norm(points.neighbors, axis=1), 1)
    assert np.allclose(points.form.place("x", x[:3]), points.neighbors[:3], atol=1e-5)


def test_a_review_is_one_page_with_rows_and_pictures(fitted: fw.LabelAudit, tmp_path: Path) -> None:
    frame, _, _ = make_data()
    path = fitted.write_review(tmp_path / "review.html", n_points=7, rows=frame.astype(str), title="Animals")
    page = path.read_text(encoding="utf-8")
    assert "<title>Animals" in page
    assert "labels (" in page
    point = int(fitted.ranking_[0])
    (tmp_path / "decisions.csv").write_text(
        f"index,name,label,decision,new_label\n{point},{point},cat,keep,cat\n", encoding="utf-8"
    )
    assert read_decisions(tmp_path / "decisions.csv")[0].name == str(point)


def test_an_audit_that_is_not_fitted_says_so() -> None:
    with pytest.raises(NotFittedError, match=r"call fit\(x, y\) first"):
        fw.LabelAudit().reasons(0)
