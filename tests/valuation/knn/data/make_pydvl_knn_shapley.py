"""Make pydvl_knn_shapley.json, in an environment of its own: pip install 'numpy<2' pydvl==0.10.0."""

import json
from pathlib import Path

import numpy as np
import pydvl
from pydvl.valuation import Dataset, KNNShapleyValuation
from sklearn.neighbors import KNeighborsClassifier

TRAIN, TEST, COLUMNS, CLASSES, K = 200, 20, 4, 3, 5

generator = np.random.default_rng(0)
x = generator.normal(size=(TRAIN + TEST, COLUMNS)).round(6)
y = generator.integers(0, CLASSES, TRAIN + TEST)
train, test = Dataset(x[:TRAIN], y[:TRAIN]), Dataset(x[TRAIN:], y[TRAIN:])
model = KNeighborsClassifier(n_neighbors=K)
values = KNNShapleyValuation(model, test, progress=False).fit(train).result.values

problem = {"x": x[:TRAIN], "y": y[:TRAIN], "x_reference": x[TRAIN:], "y_reference": y[TRAIN:], "values": values}
facts = {"pydvl": pydvl.__version__, "k": K} | {name: array.tolist() for name, array in problem.items()}
Path(__file__).with_name("pydvl_knn_shapley.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")
