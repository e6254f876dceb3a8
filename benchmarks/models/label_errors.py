"""How well scores find labels that are known to be wrong: those of an audit, of its evidence, and of cleanlab."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

import fwshapley as fw

COMBINATION = "audit: combination"
BINS = np.linspace(0, 1, 11)
CLEANLAB = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
"""Scores of cleanlab, which need class probabilities alone."""

Measures = dict[str, float]


def suspicion_of(audit: fw.LabelAudit) -> dict[str, NDArray[np.float64]]:
    """Suspicion of each label by method: the combination, each kind of evidence, and cleanlab on the same models."""
    found = {COMBINATION: audit.wrong_probability_}
    for name, column in audit.evidence_.items():
        sign = 1 if name == "neighbor_disagreement" else -1
        found[f"audit: {str(name).replace('_', ' ')}"] = sign * column.to_numpy()
    return found | cleanlab_scores("same models", audit.judgement_.labels, audit.judgement_.held_out)


def cleanlab_scores(
    models: str, labels: NDArray[np.int64], probabilities: NDArray[np.floating]
) -> dict[str, NDArray[np.float64]]:
    """Suspicion by cleanlab's scores of out-of-sample probabilities."""
    from cleanlab.rank import get_label_quality_scores  # noqa: PLC0415 - a machine with a GPU may lack it

    exact = np.asarray(probabilities, np.float64).clip(1e-9, 1)
    exact /= exact.sum(axis=1, keepdims=True)
    return {
        f"cleanlab: {method.replace('_', ' ')}, {models}": -get_label_quality_scores(
            labels, exact, method=method, adjust_pred_probs=False
        )
        for method in CLEANLAB
    }


def measure(suspicion: NDArray[np.float64], wrong: NDArray[np.bool_]) -> Measures:
    """AUROC, average precision, and precision among as many suspects as there are wrong labels."""
    first = np.argsort(-suspicion, kind="stable")[: int(wrong.sum())]
    return {
        "auroc": float(roc_auc_score(wrong, suspicion)),
        "average_precision": float(average_precision_score(wrong, suspicion)),
        "precision_at_n": float(wrong[first].mean()),
    }


def describe(audit: fw.LabelAudit, true: NDArray[Any], given: NDArray[Any]) -> dict[str, Any]:
    """Calibration of the probabilities, and how often the suggested label is the true one."""
    wrong, said = given != true, audit.wrong_probability_
    bin_of = np.digitize(said, BINS[1:-1])
    others = audit.label_probabilities_.copy()
    others[np.arange(len(given)), audit.judgement_.labels] = -1
    likely = said > 0.5
    return {
        "share_wrong": float(wrong.mean()),
        "estimated_share_wrong": audit.noise_,
        "calibration": [
            [int((bin_of == one).sum()), float(said[bin_of == one].mean()), float(wrong[bin_of == one].mean())]
            for one in np.unique(bin_of)
        ],
        "calibration_error": float(
            sum(abs(said[bin_of == one].sum() - wrong[bin_of == one].sum()) for one in np.unique(bin_of)) / len(said)
        ),
        "best_other_label_is_true": float((audit.classes_[others.argmax(1)] == true)[wrong].mean()),
        "suggestion_is_true_where_likely": float((audit.suggested_labels_ == true)[likely].mean())
        if likely.any()
        else 0.0,
        "correct_before": float((given == true).mean()),
        "correct_after": float((audit.suggested_labels_ == true).mean()),
        "evidence_weights": audit.evidence_weights_,
        "model_weights": audit.model_weights_,
    }


def add_measures(
    rows: dict[str, dict[str, list[float]]], suspicion: Mapping[str, NDArray[np.float64]], wrong: NDArray[np.bool_]
) -> None:
    """Append the measures of one seed to those of each method."""
    for method, scores in suspicion.items():
        for key, number in measure(scores, wrong).items():
            rows.setdefault(method, {}).setdefault(key, []).append(number)
