"""Find wrong labels in a table, and check whether a model improves without them.

    python examples/find_bad_labels.py           # some seconds; writes find_bad_labels.png

Run the file as a whole, or cell by cell in an editor that supports `# %%`.
"""

# %% A table with scaled columns, so that all of them count equally in distances.
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import fwshapley as fw
from fwshapley.valuation import Curve, Valuation, flip_labels, measure_detection, removal_curve

SMOKE = "--smoke" in sys.argv
data = load_breast_cancer()
order = np.random.default_rng(0).permutation(len(data.target))
x, truth = StandardScaler().fit_transform(data.data)[order], data.target[order]
train, test = slice(0, 400), slice(400, None)

# %% Make some labels wrong, to count how many are found. Leave this out for your own data.
labels, wrong = flip_labels(truth[train], share=0.15, seed=0)
print(f"{wrong.sum()} of {len(labels)} labels are wrong.")

# %% Value every point by how it helps to predict the others. No clean data is needed, and nothing is trained.
valuation = fw.value_neighbors(x[train], labels, k=5)
suspects = valuation.suspects(20).numpy()
print(valuation.to_dataframe().sort_values("rank").head(5).to_string(index_names=False))
print(f"Of the 20 points with the lowest values, {wrong[suspects].sum()} have a wrong label.")
print(f"Of the {len(valuation.suspects())} with a negative value, {wrong[valuation.suspects()].sum()} have.")

# %% Which weighting finds most? They share all distances, so several cost little more than one.
weightings = [fw.Beta(16, 1), fw.Shapley(), fw.Beta(1, 4), fw.Banzhaf(), fw.LeaveOneOut()]
valuations = fw.value_neighbors(x[train], labels, k=5, weights=weightings)
for weights in weightings:
    detection = measure_detection(valuations.of(weights).values, wrong)
    print(f"{weights!s:>14}: AUROC {detection.auroc:.3f}, {detection.found_at_20:.0%} found in the first 20 %")
valuation.plot().savefig("find_bad_labels.png")
print("find_bad_labels.png shows all values.")


# %% Does a model improve without them? Two kinds of model, scored on held-out rows.
def score_without(valuation: Valuation, model: Any) -> Curve:  # noqa: ANN401 - any classifier
    """Return the accuracy as more and more of the points with the lowest values are removed."""

    def fit_and_score(rows: NDArray[np.int64]) -> float:
        return float(model.fit(x[train][rows], labels[rows]).score(x[test], truth[test]))

    return removal_curve(valuation.values, fit_and_score, steps=2 if SMOKE else 6, most=0.3)


for classifier in (KNeighborsClassifier(5), LogisticRegression(max_iter=1000)):
    curve = score_without(valuation, classifier)
    print(f"{type(classifier).__name__}, accuracy as points are removed:")
    print("  " + "  ".join(f"{share:.0%} {score:.3f}" for share, score in zip(curve.share, curve.score, strict=True)))
