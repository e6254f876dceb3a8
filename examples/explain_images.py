"""Explain a model of handwritten digits: which patches speak for the predicted class, under several weightings.

    python examples/explain_images.py            # about a minute and a half; writes explain_images.png

Run the file as a whole, or cell by cell in an editor that supports `# %%`.
"""

# %% A trained model and images. Replace them with yours; explaining needs no labels.
import sys

import torch

import bundled
import fwshapley as fw
from fwshapley.explanation.metrics import measure_agreement

SMOKE = "--smoke" in sys.argv
task = bundled.digits()
print(f"A convolutional network, {task.skill:.1%} accurate on {len(task.x_test)} held-out digits.")

# %% Train the explainer once. Players are the 16 patches of 2 x 2 pixels.
players = fw.grid(8, 8, patch=2)
explainer = fw.FeatureExplainer(task.model, players, output_names=task.output_names)
explainer.fit(task.x_train, budget=fw.Budget(steps=5) if SMOKE else fw.Budget(seconds=50), learning_rate=6e-3)

# %% Does the surrogate, which predicts from visible patches alone, reproduce the model?
fidelity = explainer.fitted_.provenance["fidelity"]
print(f"The surrogate predicts the same digit as the model for {fidelity['agreement']:.1%} of complete images.")
print("Its divergence from the model, by the visible share of the image, from little to all:")
print("  " + " ".join(f"{divergence:.2f}" for divergence in fidelity["divergence"]))

# %% Explain: one pass for every weighting. A large alpha asks what a patch adds when little else is visible.
weightings = [fw.Beta(16, 1), fw.Shapley(), fw.Beta(1, 4)]
images = task.x_test[:4]
attribution = explainer.explain(images, weights=weightings, outputs="predicted")
for number, output in enumerate(attribution.outputs[:, 0].tolist()):
    print(f"Image {number}, predicted: {output}. The three patches (row, column) with the largest values:")
    for weights, values in zip(weightings, attribution.values[:, number, :, 0], strict=True):
        best = ", ".join(players.names[player] for player in values.topk(3).indices.tolist())
        print(f"  {weights!s:>12}: {best}")

# %% A picture: orange patches speak for the digit, blue ones against it.
attribution.plot(rows=4).savefig("explain_images.png")
print("explain_images.png shows all of them.")

# %% How close is this to the exact values? Sixteen players have 65,536 coalitions: few enough to enumerate.
n_checked = 1 if SMOKE else 3
exact = torch.stack([fw.exact_values(explainer.game(image), weightings) for image in images[:n_checked]], 1)
outputs = attribution.outputs[None, :n_checked, None].expand(len(weightings), -1, players.n_players, -1)
for weights, learned, truth in zip(weightings, attribution.values, exact.gather(-1, outputs), strict=True):
    agreement = measure_agreement(learned[:n_checked, :, 0], truth[..., 0])
    print(f"  {weights!s:>12}: correlation with the exact values {agreement.pearson:.2f}")
