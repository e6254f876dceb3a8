"""Explain a model of handwritten digits: which patches speak for what it sees, under several weightings.

    python examples/explain_images.py            # about a minute and a half; writes explain_images.png

The cells run one by one in an editor that knows `# %%`, or from start to end.
"""

# %% A trained model, and images. Put yours here: no labels are needed to explain it.
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

# %% Does the surrogate, which knows how to answer when patches are hidden, stand in for the model?
fidelity = explainer.provenance["fidelity"]
print(f"The surrogate sees the same digit as the model on {fidelity['agreement']:.1%} of whole images.")
print("Its divergence from the model, by share of the image shown, from little to all:")
print("  " + " ".join(f"{each:.2f}" for each in fidelity["divergence"]))

# %% Explain: one pass for every weighting. A large alpha asks what a patch adds when little else is seen.
weights = [fw.Beta(16, 1), fw.Shapley(), fw.Beta(1, 4)]
images = task.x_test[:4]
attribution = explainer.explain(images, weights=weights, outputs="predicted")
for number, output in enumerate(attribution.outputs[:, 0].tolist()):
    print(f"Image {number}, seen as a {output}; the three patches (row, column) that speak for it most:")
    for each, values in zip(weights, attribution.values[:, number, :, 0], strict=True):
        best = ", ".join(players.names[player] for player in values.topk(3).indices.tolist())
        print(f"  {each!s:>12}: {best}")

# %% A picture: red speaks for the digit, blue against it.
attribution.plot(rows=4).savefig("explain_images.png")
print("explain_images.png shows them all.")

# %% How close is that to the exact values? Sixteen players have 65,536 coalitions: few enough to try.
audited = 1 if SMOKE else 3
exact = torch.stack([fw.exact_values(explainer.game(image), weights) for image in images[:audited]], 1)
chosen = attribution.outputs[None, :audited, None].expand(len(weights), -1, players.n_players, -1)
for each, learned, truth in zip(weights, attribution.values, exact.gather(-1, chosen), strict=True):
    agreement = measure_agreement(learned[:audited, :, 0], truth[..., 0])
    print(f"  {each!s:>12}: correlation with the exact values {agreement.pearson:.2f}")
