"""Explain a model of a medical table: which measurements speak for a malignant tumor.

    python examples/explain_table.py             # about a minute; writes explain_table.png

Run the file as a whole, or cell by cell in an editor that supports `# %%`.
"""

# %% A table: 569 tumors, 30 columns, three for each of ten measurements.
import sys

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

import fwshapley as fw

SMOKE = "--smoke" in sys.argv
data = load_breast_cancer()
columns = [str(name) for name in data.feature_names]  # mean radius, ..., radius error, ..., worst radius, ...
x, y = torch.tensor(data.data, dtype=torch.float32), torch.tensor(data.target)
train, test = slice(0, 450), slice(450, None)

# %% A model. Replace it with yours: any torch module from rows to logits of the classes.
torch.manual_seed(0)
model = nn.Sequential(nn.BatchNorm1d(30, affine=False), nn.Linear(30, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.1)
for _ in range(100):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x[train]), y[train]).backward()
    optimizer.step()
model.eval()
print(f"A perceptron, {(model(x[test]).argmax(1) == y[test]).double().mean():.1%} accurate on held-out rows.")

# %% Columns that belong together are one player: mean, error and worst of each measurement.
kinds = [name.removeprefix("mean ") for name in columns[:10]]
players = fw.groups({kind: [kinds.index(kind) + 10 * part for part in range(3)] for kind in kinds})
print(f"{len(columns)} columns, {players.n_players} players: {', '.join(players.names)}.")

# %% Train the explainer once. output="logit" (log odds) is useful because most probabilities are near 0 or 1.
explainer = fw.FeatureExplainer(model, players, output="logit", output_names=data.target_names.tolist())
explainer.fit(x[train], budget=fw.Budget(steps=5) if SMOKE else fw.Budget(seconds=45))
agreement = explainer.fitted_.provenance["fidelity"]["agreement"]
print(f"The surrogate predicts the same class as the model for {agreement:.1%} of complete rows.")

# %% One row: learned values for "malignant", beside the exact values of the same game.
row = x[test][model(x[test]).argmax(1) == 0][0]  # predicted malignant
learned = explainer.explain(row[None], outputs=[0]).values[0, :, 0]
exact = fw.exact_values(explainer.game(row), fw.Shapley())[:, 0]
print(f"{'measurement':>20}  learned  exact   (log odds of malignant)")
for player in learned.argsort(descending=True).tolist():
    print(f"{players.names[player]:>20}  {learned[player]:+.2f}   {exact[player]:+.2f}")

# %% All rows: which measurements matter most on average, under two weightings.
weightings = [fw.Beta(16, 1), fw.Shapley()]
attribution = explainer.explain(x[test], weights=weightings, outputs=[0])
for weights, importance in zip(weightings, attribution.values[..., 0].abs().mean(1), strict=True):
    best = ", ".join(players.names[player] for player in importance.topk(3).indices.tolist())
    print(f"{weights!s:>12}: {best} have the largest values on average.")
attribution.plot(rows=3).savefig("explain_table.png")
print("explain_table.png shows three rows.")
