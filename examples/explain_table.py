"""Explain a model of a medical table: which measurements speak for a malignant tumour, alone and in groups.

    python examples/explain_table.py             # about a minute; writes explain_table.png

The cells run one by one in an editor that knows `# %%`, or from start to end.
"""

# %% A table: 569 tumours, 30 columns, three for each of ten measurements.
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

# %% A model. Put yours here: any torch module from rows to logits of the classes.
torch.manual_seed(0)
model = nn.Sequential(nn.BatchNorm1d(30, affine=False), nn.Linear(30, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.1)
for _ in range(100):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x[train]), y[train]).backward()
    optimizer.step()
model.eval()
print(f"A perceptron, {(model(x[test]).argmax(1) == y[test]).double().mean():.1%} accurate on held-out rows.")

# %% Columns that mean one thing play together: mean, error and worst of each measurement.
kinds = [name.removeprefix("mean ") for name in columns[:10]]
players = fw.groups({kind: [kinds.index(kind) + 10 * part for part in range(3)] for kind in kinds})
print(f"{len(columns)} columns, {players.n_players} players: {', '.join(players.names)}.")

# %% Train the explainer once; "logit" measures evidence where probabilities are all near 0 or 1.
explainer = fw.FeatureExplainer(model, players, output="logit", output_names=data.target_names.tolist())
explainer.fit(x[train], budget=fw.Budget(steps=5) if SMOKE else fw.Budget(seconds=45))
agreement = explainer.provenance["fidelity"]["agreement"]
print(f"The surrogate gives the same class as the model on {agreement:.1%} of whole rows.")

# %% One row: what speaks for malignant, and the exact values of the same game beside it.
row = x[test][model(x[test]).argmax(1) == 0][0]  # seen as malignant
learned = explainer.explain(row[None], outputs=[0]).values[0, :, 0]
exact = fw.exact_values(explainer.game(row), fw.Shapley())[:, 0]
print(f"{'measurement':>20}  learned  exact   (log odds of malignant)")
for player in learned.argsort(descending=True).tolist():
    print(f"{players.names[player]:>20}  {learned[player]:+.2f}   {exact[player]:+.2f}")

# %% All rows: what matters most on average, under two weightings.
weights = [fw.Beta(16, 1), fw.Shapley()]
everything = explainer.explain(x[test], weights=weights, outputs=[0])
for each, importance in zip(weights, everything.values[..., 0].abs().mean(1), strict=True):
    best = ", ".join(players.names[player] for player in importance.topk(3).indices.tolist())
    print(f"{each!s:>12}: on average {best} move the prediction most.")
everything.plot(rows=3).savefig("explain_table.png")
print("explain_table.png shows three rows.")
